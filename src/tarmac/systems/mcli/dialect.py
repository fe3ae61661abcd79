"""The MCLI dialect: MosaicML MCLI's run YAML. Listed in `systems.registry`."""

from __future__ import annotations

from tarmac.dialects.dialect import CERTAIN, Detection, Dialect, FileKind, not_ours
from tarmac.dialects.located import Items, Node, Scalar, Table, quote
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.systems.mcli.conventions import apply_conventions
from tarmac.systems.mcli.fields import RUN, known_as
from tarmac.systems.mcli.reader import NAME, read_mcli
from tarmac.systems.mcli.statuses import status

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
