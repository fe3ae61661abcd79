"""Reads a run's inputs beside its code: datasets, artifacts of other runs, paths of the node, parameters.

Called by the reader.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, flag, matching
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.record import replace
from tarmac.model.spec import ArtifactRules, Bind

BIND = Fields(
    known=frozenset({"source", "target", "read_only"}),
    synonyms=words_for(source="host_path src", target="container_path dst", read_only="readonly ro"),
)
ARTIFACTS = Fields(
    known=frozenset({"checkpoint_every", "crud_every", "lossy_every", "log_every"}),
    synonyms=words_for(
        checkpoint_every="checkpoint", crud_every="crud", lossy_every="lossy", log_every="log logs"
    ),
)

IDENTIFIER = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?",
    "an id of letters, digits, '.', '_' and '-', first and last a letter or digit,",
)


def read_ids(value: Value | None, what: str) -> tuple[str, ...]:
    """One id or a list of them, without duplicates."""
    if value is None:
        return ()
    if isinstance(value.node, Scalar):
        found = value.read(IDENTIFIER, None)
        return (found,) if found is not None else ()
    ids: list[str] = []
    for item in value.items(f"a list of ids of {what}"):
        identifier = item.read(IDENTIFIER, None)
        if identifier in ids:
            item.refuse(f"{identifier!r} occurs here a second time")
        elif identifier is not None:
            ids.append(identifier)
    return tuple(ids)


def read_artifacts(value: Value | None) -> ArtifactRules:
    """How often each kind of artifact is synced."""
    rules = ArtifactRules()
    section = value.section(ARTIFACTS) if value is not None else None
    if section is None:
        return rules
    every = quantities.duration_s()
    return replace(
        rules,
        checkpoint_every_s=section.read("checkpoint_every", every, rules.checkpoint_every_s),
        crud_every_s=section.read("crud_every", every, rules.crud_every_s),
        lossy_every_s=section.read("lossy_every", every, rules.lossy_every_s),
        log_every_s=section.read("log_every", every, rules.log_every_s),
    )


def read_binds(value: Value | None) -> tuple[Bind, ...]:
    """Files and directories of the node, and their paths inside the run."""
    if value is None:
        return ()
    binds: list[Bind] = []
    for item in value.items("a list of mappings with 'source' and 'target'"):
        section = item.section(BIND)
        if section is None:
            continue
        for name in ("source", "target"):
            if name not in section:
                section.missing(name, "both ends of the bind are needed")
        source, target = section.read("source", _ABSOLUTE, None), section.read("target", _TARGET, None)
        if target in {bind.target for bind in binds}:
            item.refuse(f"{target!r} is the target of two binds")
        elif source is not None and target is not None:
            binds.append(
                Bind(source=source, target=target, read_only=section.read("read_only", flag(), False))
            )
    return tuple(binds)


def read_parameters(run: Section) -> Mapping[str, Any] | None:
    """The parameters, which the run gets as a file: any mapping, passed on unchanged."""
    value = run.get("parameters")
    if value is None:
        return None
    if not isinstance(value.node, Table):
        value.expected("a mapping from names to values")
        return None
    parameters: Mapping[str, Any] = to_plain(value.node)
    return parameters


def _path(description: str, *, absolute: bool) -> Kind[str]:
    def read(scalar: Scalar) -> str:
        path = posixpath.normpath(scalar.text) if scalar.text else ""
        if (absolute and not path.startswith("/")) or path in ("", ".", "/") or path.startswith(".."):
            raise Misfit()
        return path

    return Kind(description, read)


_ABSOLUTE = _path("an absolute path of the node", absolute=True)
_TARGET = _path("an absolute path, or one below the work directory,", absolute=False)
