"""The MCLI dialect: MosaicML MCLI's run YAML. Listed in `systems.registry`."""

from collections.abc import Mapping

from tarmac.dialects.conventions import with_files, with_setup_variables, with_variables
from tarmac.dialects.dialect import CERTAIN, Detection, Dialect, FileKind, not_ours
from tarmac.dialects.located import Items, Node, Scalar, Table, quote
from tarmac.dialects.plain import to_yaml
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.systems.mcli.fields import RUN, WORKSPACE, known_as
from tarmac.systems.mcli.reader import NAME, read_mcli
from tarmac.systems.mcli.statuses import status
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


_OWN = frozenset(
    {"compute", "scheduling", "env_variables", "gpu_num", "run_name", "platform", "optimization_level"}
    | {"dependent_deployment", "experiment_tracker"}
)
"""Top-level fields that no other dialect has."""

_ACTS = frozenset({"command", "entrypoint"})
_FOREIGN = frozenset(
    {"slots", "roles", "processes", "resources", "setup", "code", "mode", "environment", "conventions"}
    | {"searcher", "hyperparameters", "experiment_name", "bind_mounts", "project", "workspace", "jobs"}
)
"""Fields of other dialects that no MCLI file has at its top level."""


def _detect(_filename: str, text: str) -> Detection:
    """Certain for a top-level field that only MCLI has, or for an image beside a command."""
    problems = Problems(None)
    tree = compose(text, problems, lenient=True)
    if not isinstance(tree, Table):
        missed = str(problems.first) if tree is None else f"fields are expected, not {quote(tree)}"
        return not_ours(missed)
    fields = {known_as(key.text, RUN): node for key, node in tree.entries}
    own, image = bool(fields.keys() & _OWN), isinstance(fields.get("image"), Scalar)
    if (own and image) or (not fields.keys() & _FOREIGN and (own or _shown(fields))):
        return CERTAIN
    return not_ours("an image and a command, compute or integrations")


def _shown(fields: dict[str, Node]) -> bool:
    """Whether fields that other dialects may share are used as in MCLI."""
    image, listed = fields.get("image"), fields.get("integrations")
    if isinstance(listed, Items) and any(_is_integration(item) for item in listed.items):
        return True
    acts = bool(fields.keys() & _ACTS)
    return isinstance(image, Scalar) and acts


def _is_integration(item: Node) -> bool:
    return isinstance(item, Table) and any(
        known_as(key.text, RUN) in ("integration_type", "type") for key, _ in item.entries
    )


MCLI = Dialect(
    name=NAME,
    detect=_detect,
    read=read_mcli,
    apply_conventions=apply_conventions,
    status=status,
    own_packages=True,
    every_secret=True,
    unread=(
        FileKind(
            "an MCLI sweep, as a script of its authors reads it",
            "base_config sweep_config",
            hint="what is below base_config is a run file of its own (docs/using/dialects/mcli.md)",
        ),
        FileKind(
            "a file of parameters for a training script",
            "max_duration model",
            "optimizer train_loader",
            "put it below 'parameters' of a run file that starts the script (docs/using/dialects/mcli.md)",
        ),
    ),
)
