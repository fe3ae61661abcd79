"""Kinds of engines: how the engine of a cluster is opened, and the rules of its containers.

Implemented by `server/wiring.py` and by tests.

The kind of a server's own engine needs no opening: that engine serves its own cluster, every described one of
its kind, and rehearsals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct, field

from tarmac.model.cluster import Cluster, Finding, Machine, MachineProgress, MachineReport
from tarmac.model.errors import Problem

if TYPE_CHECKING:  # clients import the records of this module, and no ports
    from tarmac.model.ports import Engine


class EngineKind(Protocol):
    """A kind of engine with one engine for each cluster."""

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for settings, nodes or credentials that make no cluster of this kind; no I/O."""

    def open(self, cluster: Cluster) -> Engine[Any]:
        """The engine of this cluster. Returns at once: a remote system is contacted on first use."""


@runtime_checkable
class ExaminesCluster(Protocol):
    """An engine that can check everything that a run needs on a cluster of its kind."""

    def examine(self, cluster: Cluster) -> Sequence[Finding]:
        """The findings, one by one. May take long; raises Unavailable if nothing can be reached."""


class ClusterStart(Protocol):
    """Machines that were examined and can become a cluster."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that they become."""

    def begin(self) -> None:
        """Start it on all of them, whatever runs already. May take minutes.

        Raises InvalidInput with the failure, after ending everything that it started.
        """


class StartsClusters(Protocol):
    """Starts clusters of a kind on machines that SSH reaches. Every call may take minutes.

    It keeps no state between calls: it finds on each machine what runs there.
    """

    def prepare(
        self, name: str, machines: Sequence[Machine], *, install: bool, progress: MachineProgress
    ) -> ClusterStart:
        """Examine all machines; raises InvalidInput with all problems, and starts nothing.

        With `install`, the program is installed on machines without it.
        """

    def end(
        self, name: str, machines: Sequence[Machine], *, purge: bool, progress: MachineProgress
    ) -> Sequence[Problem]:
        """End the cluster on these machines, and return the reasons where that failed. Idempotent.

        Directories of runs stay; `purge` removes everything of the cluster.
        """

    def look(self, name: str, machines: Sequence[Machine]) -> Sequence[MachineReport]:
        """The state of the cluster on each machine."""


class ContainerUse(StrEnum):
    """Whether runs start in the images that they name: `required` refuses runs without an image."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ContainerRules(Struct, frozen=True, kw_only=True):
    """The container rules of one cluster.

    `without` are the users who may run without an image if one is required. `driver` is the program that
    makes containers ("auto": the first that works on the node). A run may bind only paths below `shows` into
    its container (None: any). Nodes try `mirrors` for images first, by the registry that an image names.
    """

    use: ContainerUse = ContainerUse.AUTO
    without: tuple[str, ...] = ()
    driver: str = "auto"
    shows: tuple[str, ...] | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)


class ContainerSettings(Struct, frozen=True, kw_only=True):
    """The rules of all clusters, by name for those that have their own."""

    default: ContainerRules = ContainerRules()
    clusters: Mapping[str, ContainerRules] = field(default_factory=dict)

    def of(self, cluster: str) -> ContainerRules:
        """The rules of a cluster."""
        return self.clusters.get(cluster, self.default)

    def of_target(self, cluster: str | None) -> Mapping[str, ContainerRules]:
        """The rules that may apply to a run, by cluster ("": all others); without a target all of them."""
        return {"": self.default, **self.clusters} if cluster is None else {cluster: self.of(cluster)}


NO_CONTAINER_SETTINGS = ContainerSettings()
