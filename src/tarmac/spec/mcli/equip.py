"""Adds to a launch what MCLI promises: its variables, and the files below /mnt/config. Called by the dialect.

Users may say otherwise in `env_variables`, as they could there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.model.launch import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.model.resources import ACCELERATOR
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Command, RunSpec
from tarmac.spec import equipping
from tarmac.spec.mcli import variables
from tarmac.spec.mcli.priorities import PRIORITIES
from tarmac.spec.mcli.reader import SHELL
from tarmac.spec.plain import to_yaml

_PARAMETERS = "mcli/parameters.yaml"
_RUN_CONFIG = "mcli/run_config.yaml"
_COMMAND = "mcli/usercommand.bash"


def equip(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with variables, files and mounts."""
    own = run.spec.environment.variables
    slots = sum(len(worker.slots) for node in launch.nodes for worker in node.workers)
    shared = {
        variables.NUM_NODES: str(len(launch.nodes)),
        variables.WORLD_SIZE: str(slots),
        variables.RUN_NAME: run.name,
        variables.COMPOSER_RUN_NAME: run.name,
        variables.RESUMPTION_INDEX: str(attempt.number - 1),
        variables.PLATFORM: "true",
    }
    if run.spec.conventions.facts.get("wandb"):
        shared[variables.WANDB_NAME] = run.name
    shared = {name: value for name, value in shared.items() if name not in own}

    def family(_node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        if variables.LOCAL_WORLD_SIZE in own:
            return shared
        return {**shared, variables.LOCAL_WORLD_SIZE: str(len(worker.slots))}

    files = {
        _PARAMETERS: _parameters(run.spec),
        _RUN_CONFIG: to_yaml(_run_config(run, attempt)),
        _COMMAND: _script(run.spec) + "\n",
    }
    named = () if variables.PARAMETERS in own else (variables.PARAMETERS,)
    mounts: tuple[Mount, ...] = (
        Mount(source=_PARAMETERS, target=variables.PARAMETERS_FILE, variables=named),
        Mount(source=_RUN_CONFIG, target=variables.RUN_CONFIG_FILE),
        Mount(source=_COMMAND, target=variables.COMMAND_FILE),
    )
    if run.spec.conventions.facts.get("workspace"):
        mounts += (Mount(source=".", target=variables.WORKSPACE),)
    launch = equipping.with_variables(launch, family)
    launch = equipping.with_setup_variables(launch, shared)
    return equipping.with_files(launch, lambda _node: files, mounts)


def _parameters(spec: RunSpec) -> str:
    """The parameters as YAML; those whose name begins with `_` are the file's own business."""
    given = spec.parameters or {}
    return to_yaml({name: value for name, value in given.items() if not name.startswith("_")})


def _run_config(run: Run, attempt: Attempt) -> dict[str, Any]:
    """The run as it was launched, in MCLI's words of today."""
    spec, facts = run.spec, run.spec.conventions.facts
    asked, given = spec.roles[0].slot_type, attempt.allocation.slot_types
    slot_type = asked if asked != ACCELERATOR else (given[0] if len(given) == 1 else None)
    compute = {"cluster": spec.target.cluster, "gpus": spec.slots, "gpu_type": slot_type}
    scheduling = {
        "priority": _priority(spec),
        "preemptible": facts.get("preemptible"),
        "max_retries": spec.retries or None,
        "max_duration": None if spec.time_limit_s is None else spec.time_limit_s / 3600,
    }
    config = {
        "name": run.name,
        "image": spec.environment.image,
        "command": _script(spec),
        "compute": _given(compute),
        "scheduling": _given(scheduling),
        "integrations": facts.get("integrations"),
        "env_variables": dict(spec.environment.variables),
        "parameters": dict(spec.parameters or {}),
        "metadata": facts.get("metadata"),
    }
    return {name: value for name, value in config.items() if value not in (None, {}, [])}


def _priority(spec: RunSpec) -> str | None:
    """The word of the file, or of what the command line has put in its place."""
    word = spec.conventions.facts.get("priority")
    if PRIORITIES.get(str(word), 0) == spec.priority:
        return word
    return next((other for other, value in PRIORITIES.items() if value == spec.priority), None)


def _script(spec: RunSpec) -> str:
    command: Command = spec.roles[0].processes[0].command
    argv = command.argv or ()
    return argv[-1] if argv[:-1] == SHELL else str(command)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
