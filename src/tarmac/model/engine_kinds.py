"""Kinds of engines: how the engine of a cluster is opened. Implemented by `server/wiring.py` and by tests.

The kind of a server's own engine needs no opening: that engine stands for its own cluster, for every
described one of its kind, and for rehearsals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tarmac.model.cluster import Cluster
from tarmac.model.errors import Problem
from tarmac.model.machine import Machine, MachineProgress, MachineReport
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


class ClusterStart(Protocol):
    """Machines that were examined and are fit to be a cluster."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that they will be."""
        ...

    def begin(self) -> None:
        """Have it run on all of them, whatever runs already. May take minutes.

        Raises InvalidInput with what went wrong, after everything that was started here was ended again.
        """
        ...


class StartsClusters(Protocol):
    """What starts clusters of a kind on machines that SSH reaches. Every call may take minutes.

    Nothing is remembered here between calls: what runs on a machine is found there.
    """

    def prepare(
        self, name: str, machines: Sequence[Machine], *, install: bool, progress: MachineProgress
    ) -> ClusterStart:
        """Examine all of them; raises InvalidInput with everything that is wrong, and starts nothing.

        `install`: a machine without the program is given it.
        """
        ...

    def end(
        self, name: str, machines: Sequence[Machine], *, purge: bool, progress: MachineProgress
    ) -> Sequence[Problem]:
        """End it on these machines; why it could not be ended on some. Idempotent.

        Directories of runs stay; with `purge`, nothing of the cluster does.
        """
        ...

    def look(self, name: str, machines: Sequence[Machine]) -> Sequence[MachineReport]:
        """How it is on each of them."""
        ...
