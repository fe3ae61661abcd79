"""Kinds of engines: how the engine of a cluster is opened. Implemented by `server/wiring.py` and by tests.

The kind of a server's own engine needs no opening: that engine stands for its own cluster, for every
described one of its kind, and for rehearsals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tarmac.model.cluster import Cluster
from tarmac.model.ports import Engine


class EngineKind(Protocol):
    """A kind of engine, of which each cluster has one of its own."""

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for settings, nodes or credentials that make no cluster of this kind; no I/O."""
        ...

    def open(self, cluster: Cluster) -> Engine[Any]:
        """The engine of this cluster. Answers at once: what is far away is reached when it is first used."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a cluster needs, and whether it is so; `text` says what was found or is missing."""

    what: str
    ok: bool
    text: str


@runtime_checkable
class ExaminesCluster(Protocol):
    """An engine that can try everything that a run will need on a cluster of its kind."""

    def examine(self, cluster: Cluster) -> Sequence[Finding]:
        """What was found, one by one. May take long; raises Unavailable where nothing can be reached."""
        ...
