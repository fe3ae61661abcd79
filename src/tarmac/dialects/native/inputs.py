"""The fields of a run's inputs beside its code: datasets, artifacts of other runs, paths of the node."""

from __future__ import annotations

import posixpath

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, flag, matching
from tarmac.dialects.located import Scalar
from tarmac.dialects.schema import Field, ListOf, record, tuple_of
from tarmac.model.spec import ArtifactRules, Bind

IDENTIFIER = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?",
    "an id of letters, digits, '.', '_' and '-', first and last a letter or digit,",
)


def ids(what: str) -> ListOf:
    """One id or a list of them, without duplicates."""
    twice = (str, "{!r} occurs here a second time")
    return tuple_of(IDENTIFIER, f"a list of ids of {what}", or_one=True, twice=twice)


def _path(description: str, *, absolute: bool) -> Kind[str]:
    def read(scalar: Scalar) -> str:
        path = posixpath.normpath(scalar.text) if scalar.text else ""
        if (absolute and not path.startswith("/")) or path in ("", ".", "/") or path.startswith(".."):
            raise Misfit()
        return path

    return Kind(description, read)


_EVERY = quantities.duration_s()
ARTIFACTS = record(
    {
        "checkpoint_every": Field(_EVERY, sets="checkpoint_every_s", words="checkpoint"),
        "crud_every": Field(_EVERY, sets="crud_every_s", words="crud"),
        "lossy_every": Field(_EVERY, sets="lossy_every_s", words="lossy"),
        "log_every": Field(_EVERY, sets="log_every_s", words="log logs"),
    },
    make=ArtifactRules,
)
"""How often each kind of artifact is synced."""

_BOTH = "both ends of the bind are needed"
BIND = record(
    {
        "source": Field(
            _path("an absolute path of the node", absolute=True), words="host_path src", required=_BOTH
        ),
        "target": Field(
            _path("an absolute path, or one below the work directory,", absolute=False),
            words="container_path dst",
            required=_BOTH,
        ),
        "read_only": Field(flag(), words="readonly ro"),
    },
    make=Bind,
)
BINDS = tuple_of(
    BIND,
    "a list of mappings with 'source' and 'target'",
    twice=(lambda bind: bind.target, "{!r} is the target of two binds"),
)
"""Files and directories of the node, and their paths inside the run."""
