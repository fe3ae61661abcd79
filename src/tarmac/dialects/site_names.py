"""Translates the names of other sites in a spec into local names, following the settings of a server.

Called by the server for every spec, of any dialect: run files that were written elsewhere use that site's
names of clusters, pools and GPUs.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tarmac.dialects.slot_types import with_types
from tarmac.model.codec import replace
from tarmac.model.spec import Role, RunSpec

ANY = ""
"""The target of names that any local one may replace."""


class Names(Struct, frozen=True, kw_only=True):
    """The local name for each foreign one; `slot_types` are compared without regard to case."""

    clusters: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    slot_types: Mapping[str, str] = field(default_factory=dict)


NO_NAMES = Names()


def use_local_names(spec: RunSpec, names: Names) -> tuple[RunSpec, tuple[str, ...]]:
    """The spec with local names, and a sentence about each name that changed."""
    target = spec.target
    types = {name.lower(): here.lower() for name, here in names.slot_types.items()}
    kinds = dict.fromkeys(kind for role in spec.roles for kind in _types(role) if kind in types)
    sentences = [
        *_sentences("cluster", target.cluster, names.clusters),
        *_sentences("pool", target.pool, names.pools),
        *(sentence for kind in kinds for sentence in _sentences("slot type", kind, types)),
    ]
    if not sentences:
        return spec, ()
    target = replace(
        target, cluster=_here(target.cluster, names.clusters), pool=_here(target.pool, names.pools)
    )
    roles = tuple(with_types(role, lambda kind: _here(kind, types)) for role in spec.roles)
    return replace(spec, target=target, roles=roles), tuple(sentences)


def _types(role: Role) -> Iterator[str]:
    for kind in (role.slot_type, *(process.resources.slot_type for process in role.processes)):
        if kind is not None:
            yield kind


def _sentences(what: str, name: str | None, names: Mapping[str, str]) -> Iterator[str]:
    if name is not None and (here := names.get(name, name)) != name:
        change = f"is {here!r} here" if here != ANY else "may be any here"
        yield f"{what} {name!r} {change}, as [names] in the settings says"


def _here(name: str | None, names: Mapping[str, str]) -> str | None:
    return name if name is None else names.get(name, name) or None
