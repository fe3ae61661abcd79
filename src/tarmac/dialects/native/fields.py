"""The fields of the native run file, mapping by mapping; docs/using/run-file.md documents each."""

from __future__ import annotations

from tarmac.dialects.kinds import choice, integer
from tarmac.dialects.section import Fields, Section, words_for
from tarmac.model.mode import Mode

ROLE_FIELDS = (
    "command",
    "slots",
    "nodes",
    "uneven",
    "replicas",
    "resources",
    "processes",
    "launcher",
    "on_failure",
)
"""Fields of a role; a file without `roles` has them at its top level, for its only role."""

RESOURCES = Fields(
    known=frozenset({"slots", "type", "cpus", "memory"}),
    synonyms=words_for(slots="gpu gpus", type="gpu_type slot_type", cpus="cpu", memory="mem ram memory_mb"),
)

ROLE = Fields(
    known=frozenset(ROLE_FIELDS),
    within={"resources": RESOURCES},
    synonyms=words_for(
        command="cmd entrypoint run script",
        slots="gpu gpus",
        replicas="count num_replicas",
        launcher="launch distributed",
        on_failure="on_fail failure",
    ),
)

RUN = Fields(
    known=ROLE.known
    | {"name", "project", "roles", "code", "rehearse"}
    | {"cluster", "pool", "shard", "hostnames", "exclude_hostnames"}
    | {"mode", "max_rapid_cycles", "priority", "weight", "queueing", "retries", "time_limit", "pause"}
    | {"after", "array", "notify"}
    | {"stop_on_nan", "log_policies"}
    | {"setup", "environment", "env", "labels", "hooks", "binds", "datasets", "input_artifacts", "artifacts"}
    | {"parameters", "search", "secrets", "conventions", "site", "slurm", "unique_name"},
    within=ROLE.within,
    synonyms={**ROLE.synonyms}
    | words_for(
        name="experiment_name run_name",
        datasets="dataset dataset_id_list",
        input_artifacts="input_artifact_id_list",
        binds="mounts bind_mounts",
        parameters="params hyperparameters",
        search="searcher sweep hyperparameter_search",
        code="workdir working_dir directory",
        hostnames="hosts",
        exclude_hostnames="exclude excluded excludes",
        max_rapid_cycles="rapid_cycles",
        weight="share",
        nodes="num_nodes nnodes",
        pool="partition queue resource_pool",
        time_limit="timeout max_duration walltime",
        retries="max_retries",
        mode="compute_mode",
        labels="tags metadata",
        secrets="secret",
        slurm="sbatch directives",
        env="envs variables env_variables environment_variables",
        setup="pre_run",
        queueing="on_busy",
        notify="notifications notification mail_user alerts webhooks",
        after="depends_on dependency dependencies needs depends",
    ),
)

PROCESS = Fields(known=frozenset({"command", "resources"}), synonyms=ROLE.synonyms, within=ROLE.within)

PAUSE = Fields(known=frozenset({"signal", "grace"}), synonyms={"timeout": "grace", "grace_period": "grace"})

ENVIRONMENT = Fields(
    known=frozenset({"variables", "venv", "image", "modules", "pull", "shared_memory"}),
    synonyms=words_for(
        image="container container_image",
        modules="module",
        pull="force_pull_image pull_policy image_pull_policy",
        shared_memory="shm_size shm",
        variables="env vars",
        venv="virtualenv python",
    ),
)


MOST_RAPID_CYCLES = 5


def read_mode(run: Section, default: Mode = Mode.BATCH) -> Mode:
    """The mode. Submission checks whether a burst run can get a cluster."""
    return run.read("mode", choice(Mode), default)


def read_rapid_cycles(run: Section, mode: Mode, default: int) -> int:
    """The number of turns of a cycle run; refused for any other run (I7)."""
    value = run.get("max_rapid_cycles")
    if value is None:
        return default
    stated = run.get("mode")
    if mode is not Mode.CYCLE and (stated is None or getattr(stated.node, "text", None) == mode):
        value.refuse(
            f"only a run of mode 'cycle' has turns, and this one is {mode}",
            "add 'mode: cycle', or take it out",
        )
    return value.read(integer(1, MOST_RAPID_CYCLES), default)
