"""Mantik's dialect: compute backend configurations, in YAML or JSON. Listed in `systems.registry`."""

from datetime import UTC

from tarmac.dialects.dialect import Certainty, Detection, Dialect, FileKind
from tarmac.dialects.located import Problems, Table, quote
from tarmac.dialects.yaml_tree import compose
from tarmac.model.changes import as_it_is
from tarmac.model.errors import Problem
from tarmac.systems.mantik.reader import CONFIG, NAME, read_mantik
from tarmac.systems.mantik.resources import RESOURCES
from tarmac.systems.mantik.statuses import columns, status


def _detect(filename: str, text: str) -> Detection:
    """Certain for a site with resources (or an environment), possible for either alone.

    A key that only Mantik has is recognised in lower case as well: the reader reports its spelling.
    """
    problems = Problems(filename)
    tree = compose(text, problems, lenient=True)
    if tree is None:
        return problems.found[0]
    if not isinstance(tree, Table):
        return Problem(message=f"keys are expected, not {quote(tree)}")
    parts = tree.values
    site = parts.keys() & _SITE
    rest = parts.keys() & (CONFIG[False].fields.keys() - _SITE)
    resources = parts.get("Resources")
    inside = resources.values.keys() if isinstance(resources, Table) else set[str]()
    if (
        (site and rest)
        or "unicoreapiurl" in {key.lower() for key in parts}
        or inside & RESOURCES[False].fields.keys()
    ):
        return Certainty.CERTAIN
    if site or rest or parts.keys() & {"ApiUrl", "TokenUrl"}:
        return Certainty.POSSIBLE
    return Problem(message="it has neither 'UnicoreApiUrl' nor 'Firecrest' nor 'Resources'")


_SITE = frozenset({"UnicoreApiUrl", "Firecrest", "SSH"})
_BESIDE = (
    "a compute backend configuration beside it says where it runs (docs/using/dialects/mantik.md); or write "
    "a run file with the command of the entry point"
)
_MLPROJECT = "the MLproject file of an MLflow project alone"

# The script that `launch` makes for a site sets these variables.
MANTIK = Dialect(
    name=NAME,
    detect=_detect,
    read=read_mantik,
    apply_conventions=as_it_is,
    status=status,
    credentials={
        "unicore": {"user": "MANTIK_UNICORE_USERNAME", "password": "MANTIK_UNICORE_PASSWORD"},
        "firecrest": {
            "client_id": "MANTIK_FIRECREST_CLIENT_ID",
            "client_secret": "MANTIK_FIRECREST_CLIENT_SECRET",
        },
    },
    columns=columns(UTC),
    unread=(
        FileKind(_MLPROJECT, "entry_points", hint=_BESIDE),
        FileKind(_MLPROJECT, "name python_env", hint=_BESIDE),
    ),
)
