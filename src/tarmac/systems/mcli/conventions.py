"""Adds to a launch what MCLI promises: its variables, and the files below /mnt/config. Called by the dialect.

The user's own `env_variables` take precedence, as in MCLI.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.dialects.conventions import with_files, with_setup_variables, with_variables
from tarmac.dialects.plain import to_yaml
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.systems.mcli.fields import WORKSPACE
from tarmac.systems.mcli.view import configuration, script

NUM_NODES = "NUM_NODES"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
RUN_NAME = "RUN_NAME"
COMPOSER_RUN_NAME = "COMPOSER_RUN_NAME"
RESUMPTION_INDEX = "RESUMPTION_INDEX"
PLATFORM = "MOSAICML_PLATFORM"
PARAMETERS = "PARAMETERS"
WANDB_NAME = "WANDB_NAME"

CONFIG = "/mnt/config"
PARAMETERS_FILE = f"{CONFIG}/parameters.yaml"
RUN_CONFIG_FILE = f"{CONFIG}/run_config.yaml"
COMMAND_FILE = f"{CONFIG}/usercommand.bash"


_PARAMETERS = "mcli/parameters.yaml"
_RUN_CONFIG = "mcli/run_config.yaml"
_COMMAND = "mcli/usercommand.bash"


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with variables, files and mounts."""
    own = run.spec.environment.variables
    slots = sum(len(worker.slots) for node in launch.nodes for worker in node.workers)
    shared = {
        NUM_NODES: str(len(launch.nodes)),
        WORLD_SIZE: str(slots),
        RUN_NAME: run.name,
        COMPOSER_RUN_NAME: run.name,
        RESUMPTION_INDEX: str(attempt.number - 1),
        PLATFORM: "true",
    }
    if run.spec.conventions.facts.get("wandb"):
        shared[WANDB_NAME] = run.name
    shared = {name: value for name, value in shared.items() if name not in own}

    def family(_node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        if LOCAL_WORLD_SIZE in own:
            return shared
        return {**shared, LOCAL_WORLD_SIZE: str(len(worker.slots))}

    files = {
        _PARAMETERS: _parameters(run.spec),
        _RUN_CONFIG: to_yaml(
            configuration(run.spec, name=run.name, slot_types=attempt.allocation.slot_types)
        ),
        _COMMAND: script(run.spec) + "\n",
    }
    named = () if PARAMETERS in own else (PARAMETERS,)
    mounts: tuple[Mount, ...] = (
        Mount(source=_PARAMETERS, target=PARAMETERS_FILE, variables=named),
        Mount(source=_RUN_CONFIG, target=RUN_CONFIG_FILE),
        Mount(source=_COMMAND, target=COMMAND_FILE),
    )
    if run.spec.conventions.facts.get("workspace"):
        mounts += (Mount(source=".", target=WORKSPACE),)
    launch = with_variables(launch, family)
    launch = with_setup_variables(launch, shared)
    return with_files(launch, lambda _node: files, mounts)


def _parameters(spec: RunSpec) -> str:
    """The parameters as YAML, without names that begin with `_`: those are private to the file."""
    parameters = spec.parameters or {}
    return to_yaml({name: value for name, value in parameters.items() if not name.startswith("_")})
