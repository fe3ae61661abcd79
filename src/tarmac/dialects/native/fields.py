"""The fields of the native run file, mapping by mapping; docs/run-file.md documents each."""

from __future__ import annotations

from tarmac.dialects.kinds import choice, integer
from tarmac.dialects.section import Fields, Section
from tarmac.model.spec import Mode

ROLE_FIELDS = ("command", "slots", "nodes", "uneven", "replicas", "resources", "processes", "on_failure")
"""Fields of a role; a file without `roles` has them at its top, for its only role."""

ROLE = Fields(
    known=frozenset(ROLE_FIELDS),
    synonyms={
        "cmd": "command",
        "entrypoint": "command",
        "run": "command",
        "script": "command",
        "gpu": "slots",
        "gpus": "slots",
        "count": "replicas",
        "num_replicas": "replicas",
        "on_fail": "on_failure",
        "failure": "on_failure",
    },
)

RUN = Fields(
    known=ROLE.known
    | {"name", "project", "roles", "code", "rehearse"}
    | {"cluster", "pool", "shard", "hostnames", "exclude_hostnames"}
    | {"mode", "max_rapid_cycles", "priority", "weight", "queueing", "retries", "time_limit", "pause"}
    | {"stop_on_nan"}
    | {"setup", "environment", "env", "labels", "hooks", "binds", "datasets", "input_artifacts", "artifacts"}
    | {"parameters", "secrets", "conventions", "site", "unique_name"},
    later=frozenset({"search"}),
    synonyms={
        **ROLE.synonyms,
        "experiment_name": "name",
        "run_name": "name",
        "dataset": "datasets",
        "dataset_id_list": "datasets",
        "input_artifact_id_list": "input_artifacts",
        "mounts": "binds",
        "bind_mounts": "binds",
        "params": "parameters",
        "hyperparameters": "parameters",
        "workdir": "code",
        "working_dir": "code",
        "directory": "code",
        "hosts": "hostnames",
        "exclude": "exclude_hostnames",
        "excluded": "exclude_hostnames",
        "excludes": "exclude_hostnames",
        "rapid_cycles": "max_rapid_cycles",
        "share": "weight",
        "num_nodes": "nodes",
        "nnodes": "nodes",
        "partition": "pool",
        "queue": "pool",
        "resource_pool": "pool",
        "timeout": "time_limit",
        "max_duration": "time_limit",
        "walltime": "time_limit",
        "max_retries": "retries",
        "compute_mode": "mode",
        "tags": "labels",
        "metadata": "labels",
        "secret": "secrets",
        "envs": "env",
        "variables": "env",
        "env_variables": "env",
        "environment_variables": "env",
        "venv": "environment: {venv: ...}",
        "image": "environment: {image: ...}",
        "container": "environment: {image: ...}",
        "modules": "environment: {modules: ...}",
        "signal": "pause: {signal: ...}",
        "grace": "pause: {grace: ...}",
        "pre_run": "setup",
        "on_busy": "queueing",
    },
)

PROCESS = Fields(known=frozenset({"command", "resources"}), synonyms=ROLE.synonyms)

RESOURCES = Fields(
    known=frozenset({"slots", "type", "cpus", "memory"}),
    synonyms={
        "gpu": "slots",
        "gpus": "slots",
        "gpu_type": "type",
        "slot_type": "type",
        "cpu": "cpus",
        "mem": "memory",
        "ram": "memory",
        "memory_mb": "memory",
    },
)

PAUSE = Fields(known=frozenset({"signal", "grace"}), synonyms={"timeout": "grace", "grace_period": "grace"})

ENVIRONMENT = Fields(
    known=frozenset({"variables", "venv", "image", "modules"}),
    synonyms={"container": "image", "container_image": "image", "module": "modules"}
    | {"env": "variables", "vars": "variables", "virtualenv": "venv", "python": "venv"},
)


MOST_RAPID_CYCLES = 5


def read_mode(run: Section, default: Mode = Mode.BATCH) -> Mode:
    """The mode. Whether a cluster can be had for a burst run is seen when it is submitted."""
    return run.read("mode", choice(Mode), default)


def read_rapid_cycles(run: Section, mode: Mode, default: int) -> int:
    """How many turns a cycle run has; refused of any other run (I7)."""
    value = run.get("max_rapid_cycles")
    if value is None:
        return default
    said = run.get("mode")
    if mode is not Mode.CYCLE and (said is None or getattr(said.node, "text", None) == mode):
        value.refuse(
            f"only a run of mode 'cycle' has turns, and this one is {mode}",
            "add 'mode: cycle', or take it out",
        )
    return value.read(integer(1, MOST_RAPID_CYCLES), default)
