"""What engines may be able to do beside the port `Engine`: small Protocols, found with isinstance.

The engines implement them; `control.engines` finds out which an engine has, tests/contract holds them to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tarmac.model.cluster import Cluster, Node, QueueOffer
from tarmac.model.ports import WorkerStatus
from tarmac.model.utilization import NodeUtilization


@runtime_checkable
class OffersNodes(Protocol):
    """A placed engine: it exposes nodes, and tarmac's scheduler places on them."""

    def nodes(self) -> Sequence[Node]:
        """The nodes of its own lasting cluster, as they are now; the same object while nothing changes.

        Answers at once, from what is known: it is asked under the lock of the control plane.
        """
        ...


@runtime_checkable
class LearnsNodes(Protocol):
    """A placed engine that learns which nodes it has some time after it was opened."""

    def knows_nodes(self) -> bool:
        """Whether it knows all of them: until then no run is refused for want of nodes. Answers at once."""
        ...


@runtime_checkable
class DescribesClusters(Protocol):
    """A placed engine that can stand for any cluster that is described to it."""

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        """The nodes of a described cluster, as they are now; a rehearsal's is named `rehearsal-<run id>`.

        Answers at once, and with the same object while nothing about them changes. No two clusters share a
        node's name or, where both were prepared (`PreparesClusters`), an address.
        """
        ...


@runtime_checkable
class PreparesClusters(Protocol):
    """An engine that gives a cluster something when it is added, which stays with it."""

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
        """The cluster with all that is `assigned` to it; `old` is the one in whose place it comes. Pure.

        `others` are all other clusters of the database. Raises Refused where there is nothing left to give.
        """
        ...


@runtime_checkable
class Delegates(Protocol):
    """An engine whose system has a queue of its own, and places by itself.

    An attempt waits there for as long as that takes, and is observed as SUBMITTED with its native job
    meanwhile. Asked to leave before it has nodes, it is taken out of that queue, and observed as ended as it
    was asked; one that the system has forgotten is observed as lost, not as absent.
    """

    def capacity(self) -> Sequence[Node]:
        """The nodes of its cluster, as if nothing ran there: what a request can be for, and how it is split.

        Answers at once, from what is known; none while nothing is. The same object while nothing changes.
        """
        ...


@runtime_checkable
class OffersQueues(Protocol):
    """A delegated engine whose pools are queues of its system."""

    def queues(self) -> Sequence[QueueOffer]:
        """One for each pool, first that of runs which name none. Answers at once, from what is known."""
        ...


@runtime_checkable
class ReadsCapacity(Protocol):
    """A delegated engine that can be asked to learn what its cluster has, before somebody is answered."""

    def read_capacity(self) -> None:
        """Learn it now: `capacity` knows it from then on. May take long; raises Unavailable."""
        ...


@runtime_checkable
class SendsScript(Protocol):
    """A native request that is a script, which people may want to see, and to submit themselves."""

    @property
    def script(self) -> str:
        """The script as it is sent."""
        ...


@runtime_checkable
class OffersPorts(Protocol):
    """An engine that can find a free port on one of its nodes."""

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        """A port free at `address` now, outside `taken` and the range of outgoing connections.

        Answers at once: the scheduler waits for it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often an engine is to be called.

    All live attempts are observed every `observe_s`, and less and less often, down to every `idle_s`, while
    nothing changes. Logs that somebody follows are looked at every `read_s`. An engine that failed several
    times in a row is left alone for `rest_s`, and twice as long each time, up to `longest_rest_s`.
    """

    observe_s: float = 1.0
    idle_s: float = 1.0
    read_s: float = 0.05
    rest_s: float = 1.0
    longest_rest_s: float = 1.0


@runtime_checkable
class SetsPace(Protocol):
    """An engine that is not to be called as often as others."""

    def pace(self) -> Pace:
        """How often it is to be called; the same at all times."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPiece:
    """Whole lines of the reports of one node, and the place in its file from which to read on."""

    node: str
    begin: int
    end: int
    content: bytes


@runtime_checkable
class MeasuresWorkers(Protocol):
    """An engine that knows what the workers of live attempts use."""

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        """What was measured last, of each node that has measured, from what `observe` brought last.

        Answers at once; an attempt of which nothing was measured is left out. The figures come from where the
        run can write: they are of the right kind, no more.
        """
        ...


@runtime_checkable
class ReadsReports(Protocol):
    """An engine whose `observe` also brings what workers report through the SDK (`reports.jsonl`)."""

    def reports(
        self, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
    ) -> Mapping[str, Sequence[ReportPiece]]:
        """What was added to the reports of attempts since these positions: a byte for each node, else 0.

        No more than `limit_bytes` of each file, from what `observe` brought last: nothing is asked of the
        cluster, and nothing is raised. An attempt without anything new is left out. What was written is the
        run's own: it may be anything. A line that is longer than a report can be is passed over.
        """
        ...


@runtime_checkable
class Notifies(Protocol):
    """An engine that says at once when there is news. A hint only: observing remains the truth."""

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener(attempt_id)`, from any thread, soon after something happened to an attempt."""
        ...


@runtime_checkable
class Reaps(Protocol):
    """An engine that can clear away what a lost attempt left behind."""

    def reap(self, attempt_id: str) -> None:
        """End every process that still carries the attempt's token, and fence its nodes. Idempotent."""
        ...


@runtime_checkable
class ClearsCopies(Protocol):
    """An engine that has brought code and programs to where its runs run, and can remove them again."""

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        """Remove what no attempt of the live runs uses, and nobody has for so many days; how many copies.

        May take long. What is needed later is brought again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptImage:
    """A container image that a node has: `name` as it was pulled, `size_bytes` as it came, `disk_bytes` as it
    lies there (layers that images share count for each). `used_at` is when a run last began or ended in it.

    Of a cluster whose nodes share one directory of images `node` is "".
    """

    node: str
    name: str
    digest: str
    size_bytes: int
    disk_bytes: int
    fetched_at: float
    used_at: float
    in_use: bool


@runtime_checkable
class KeepsImages(Protocol):
    """An engine whose nodes keep the images of runs."""

    def images(self) -> Sequence[KeptImage]:
        """The images of every node that can be reached. May take long; raises Unavailable."""
        ...

    def remove_image(self, image: KeptImage) -> bool:
        """Remove it from its node; False where a run uses it. Idempotent; raises Unavailable."""
        ...

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        """On every node remove images unused for so long, then, above the limit, those unused longest.

        How many. Those of live runs stay. May take long; raises Unavailable.
        """
        ...


class StoreFiles(Protocol):
    """The files of a store of artifacts on another machine. Every call raises Unavailable, and may take long.

    The server makes the names. A directory that is not there holds nothing.
    """

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file from there on; None without such a file."""
        ...

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a file, in order from 0; the last one makes it visible, in place of any other."""
        ...

    def listing(self, prefix: str) -> Sequence[tuple[str, int, float]]:
        """Every file below a directory: name, bytes, when it changed."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and directories with all that is in them; idempotent."""
        ...


@runtime_checkable
class KeepsArtifacts(Protocol):
    """An engine whose nodes may keep versions of artifacts in a store that the server does not see."""

    def artifact_files(self) -> StoreFiles | None:
        """The files of that store; None where the nodes use the server's own. Answers at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A thing in a directory: `kind` is `file`, `directory`, `link` or `other`."""

    name: str
    kind: str
    size_bytes: int
    modified_at: float


@runtime_checkable
class ListsFiles(Protocol):
    """An engine that can list what lies in the directory of an attempt."""

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        """What lies in a directory below that of the attempt, at most `limit` of it; no link is followed.

        Raises NotFound where there is no such directory, Unavailable.
        """
        ...


@runtime_checkable
class ClearsRemains(Protocol):
    """An engine that can clear up what attempts left with it. Every call may take long."""

    def remains(self) -> Collection[str]:
        """The runs that have left something."""
        ...

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        """Remove what an ended run worked in, and its logs: each where that is due, after so many days.

        The number of attempts that had such. That it is gone is a notice from then on. Idempotent.
        """
        ...

    def remove(self, run_id: str) -> None:
        """Remove all that an ended run left, artifacts included. Idempotent; raises Unavailable, OSError."""
        ...


@runtime_checkable
class Closes(Protocol):
    """An engine that has something to let go of when its server ends."""

    def close(self) -> None:
        """Let go of the cluster; what runs goes on."""
        ...


@runtime_checkable
class OpensSessions(Protocol):
    """An engine that can start something in the surroundings of a worker that runs."""

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        """A connected stream socket to the far end of a session beside this worker (`node.session.frames`).

        It is a descriptor. WORKER was sent; the caller sends OPEN, and closing the socket ends the session
        with all that it has started. May take long. Raises Unavailable where it cannot be started now, and
        Refused where the worker is no longer there.
        """
        ...
