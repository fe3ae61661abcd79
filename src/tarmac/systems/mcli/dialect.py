"""The MCLI dialect: MosaicML MCLI's run YAML. Listed in `systems.registry`."""

from collections.abc import Mapping
from datetime import UTC

from tarmac.dialects.dialect import Certainty, Detection, Dialect, FileKind, with_files, with_variables
from tarmac.dialects.located import Items, Node, Problems, Scalar, Table, quote
from tarmac.dialects.plain import to_yaml
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import Problem
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.systems.mcli.fields import WORKSPACE
from tarmac.systems.mcli.reader import NAME, RUN, read_mcli
from tarmac.systems.mcli.statuses import columns, status
from tarmac.systems.mcli.view import configuration, script


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with variables, unless the run has them itself, and with files and mounts."""
    own, facts = run.spec.environment.variables, run.spec.conventions.facts
    slots = sum(len(worker.slots) for node in launch.nodes for worker in node.workers)
    shared = {
        "NUM_NODES": str(len(launch.nodes)),
        "WORLD_SIZE": str(slots),
        "RUN_NAME": run.name,
        "COMPOSER_RUN_NAME": run.name,
        "RESUMPTION_INDEX": str(attempt.number - 1),
        "MOSAICML_PLATFORM": "true",
        **({"WANDB_NAME": run.name} if facts.get("wandb") else {}),
    }
    shared = {name: value for name, value in shared.items() if name not in own}

    def family(_node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        size = str(len(worker.slots))
        return shared if "LOCAL_WORLD_SIZE" in own else {**shared, "LOCAL_WORLD_SIZE": size}

    # Parameters whose names begin with `_` are private to the file.
    parameters = {name: each for name, each in (run.spec.parameters or {}).items() if name[:1] != "_"}
    config = configuration(run.spec, name=run.name, slot_types=attempt.allocation.slot_types)
    files = {
        "parameters.yaml": to_yaml(parameters),
        "run_config.yaml": to_yaml(config),
        "usercommand.bash": script(run.spec) + "\n",
    }
    named = {"parameters.yaml": () if "PARAMETERS" in own else ("PARAMETERS",)}
    mounts = [
        Mount(source=f"mcli/{name}", target=f"/mnt/config/{name}", variables=named.get(name, ()))
        for name in files
    ]
    if facts.get("workspace"):
        mounts.append(Mount(source=".", target=WORKSPACE))
    launch = with_variables(launch, family)._replace(setup_env={**launch.setup_env, **shared})
    written = {f"mcli/{name}": text for name, text in files.items()}
    return with_files(launch, lambda _node: written, tuple(mounts))


_OWN = frozenset(
    {"compute", "scheduling", "env_variables", "gpu_num", "run_name", "platform", "optimization_level"}
    | {"dependent_deployment", "experiment_tracker"}
)
"""Top-level fields that no other dialect has."""

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
        wrong = None if tree is None else Problem(message=f"fields are expected, not {quote(tree)}")
        return wrong or problems.found[0]
    fields = {RUN.known_as(key.text): node for key, node in tree.entries}
    own, image = bool(fields.keys() & _OWN), isinstance(fields.get("image"), Scalar)
    listed = fields.get("integrations")
    integrations = listed.items if isinstance(listed, Items) else ()
    # Fields that other dialects may share, used as in MCLI.
    shared = any(map(_is_integration, integrations)) or (image and fields.keys() & {"command", "entrypoint"})
    if (own and image) or (not fields.keys() & _FOREIGN and (own or shared)):
        return Certainty.CERTAIN
    return Problem(message="an image and a command, compute or integrations")


def _is_integration(item: Node) -> bool:
    return isinstance(item, Table) and any(
        RUN.known_as(key.text) in ("integration_type", "type") for key, _ in item.entries
    )


MCLI = Dialect(
    name=NAME,
    detect=_detect,
    read=read_mcli,
    apply_conventions=apply_conventions,
    status=status,
    columns=columns(UTC),
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
