"""Adds to a launch what MCLI promises: its variables, and the files below /mnt/config. Called by the dialect.

Users may say otherwise in `env_variables`, as they could there.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.dialects import equipping
from tarmac.dialects.mcli import variables
from tarmac.dialects.mcli.configuration import configuration, script
from tarmac.dialects.plain import to_yaml
from tarmac.model.launch import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import RunSpec

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
        _RUN_CONFIG: to_yaml(
            configuration(run.spec, name=run.name, slot_types=attempt.allocation.slot_types)
        ),
        _COMMAND: script(run.spec) + "\n",
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
