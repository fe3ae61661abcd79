"""Optional abilities of engines beside the port `Engine`: Protocols, found with isinstance.

Each groups what one caller asks. Engines implement them, `control` checks which an engine has, and
tests/contract tests each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from tarmac.model.cluster import Cluster, Node, QueueOffer
from tarmac.model.errors import TarmacError
from tarmac.model.progress import WorkerStatus
from tarmac.model.resources import NodeUtilization


class Pace(Struct, frozen=True, kw_only=True):
    """How often to call an engine.

    All live attempts are observed every `observe_s`, and ever less often, down to every `idle_s`, while
    nothing changes. Logs that a client follows are read every `read_s`. An engine that failed several times
    in a row rests for `rest_s`, and twice as long each time, up to `longest_rest_s`.
    """

    observe_s: float = 1.0
    idle_s: float = 1.0
    read_s: float = 0.05
    rest_s: float = 1.0
    longest_rest_s: float = 1.0


@runtime_checkable
class Attachable(Protocol):
    """An engine to which the loops of a control plane attach. Only an engine that is not open has none."""

    def pace(self) -> Pace:
        """How often to call it; never changes."""

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener(attempt_id)`, from any thread, soon after something happened to an attempt.

        This is only a hint: `observe` is the truth.
        """

    def reap(self, attempt_id: str) -> None:
        """Remove what a lost attempt left behind: end every process that still carries its token, and fence
        its nodes. Idempotent.
        """

    def close(self) -> None:
        """Release the cluster when the server ends; running attempts continue."""


@runtime_checkable
class SubmitsTogether(Protocol):
    """An engine that starts several attempts at once in less time than one after another."""

    def submit_all(self, requests: Sequence[Any]) -> Sequence[TarmacError | None]:
        """As `Engine.submit` for each; in the same order, the errors that it would raise."""


@runtime_checkable
class OffersNodes(Protocol):
    """A placed engine: it exposes nodes, and tarmac's scheduler places on them. Every call returns at once.

    The control plane calls it while holding its lock.
    """

    def nodes(self) -> Sequence[Node]:
        """The present nodes of its own lasting cluster, from known facts; the same object while nothing
        changes.
        """

    def knows_nodes(self) -> bool:
        """Whether it knows all its nodes: until then no run is refused for want of nodes."""

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        """A port that is free at `address` now, outside `taken` and the range of outgoing connections."""


@runtime_checkable
class RunsAsUsers(Protocol):
    """An engine that can run a run's processes as a system user of its nodes."""

    def check_system_user(self, name: str) -> None:
        """Raise Refused with the reason if it cannot run them as this user, from known facts.

        Returns at once. An engine whose nodes decide checks again before an attempt starts, in `submit`.
        """


@runtime_checkable
class DescribesClusters(Protocol):
    """A placed engine that can simulate any described cluster."""

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        """The present nodes of a described cluster; a rehearsal's is named `rehearsal-<run id>`.

        Returns at once, and with the same object while the nodes do not change. No two clusters share a
        node's name or, if both were prepared, an address.
        """

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
        """The cluster with all that is `assigned` to it when it is added; `old` is the one that it replaces.

        Pure. `others` are all other clusters of the database. Raises Refused if nothing is left to assign.
        """


@runtime_checkable
class Delegates(Protocol):
    """An engine whose system has its own queue and places by itself.

    An attempt waits there for any time, and is observed as SUBMITTED with its native job. A leave request
    before it has nodes takes it out of that queue, and it is observed as ended with the requested outcome. An
    attempt that the system has forgotten is observed as lost, not as absent.
    """

    def capacity(self) -> Sequence[Node]:
        """The nodes of its cluster as if they were empty, to check and split requests.

        Returns at once from known facts; empty while nothing is known. The same object while nothing changes.
        """

    def read_capacity(self) -> None:
        """Read the capacity now, for later calls of `capacity`. May take long; raises Unavailable."""

    def queues(self) -> Sequence[QueueOffer]:
        """One offer for each pool if pools are queues of the system, first that for runs without a pool.

        Returns at once from known facts.
        """

    def script(self, request: Any) -> str | None:
        """The script that a request sends, which people may want to submit themselves; None without one."""


class ReportPiece(Struct, frozen=True, kw_only=True):
    """Whole lines from the reports of one node, and their byte range; the next read begins at `end`."""

    node: str
    begin: int
    end: int
    content: bytes


@runtime_checkable
class ReadsReports(Protocol):
    """An engine whose `observe` also fetches what workers report and use; these calls only look it up.

    They return at once and raise nothing. Attempts without anything are left out. The run can write these
    files: of the reports nothing is checked, of the figures their types.
    """

    def reports(
        self, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
    ) -> Mapping[str, Sequence[ReportPiece]]:
        """The new reports through the SDK (`reports.jsonl`) of attempts since these positions: a byte offset
        for each node, otherwise 0.

        At most `limit_bytes` of each file. Lines longer than the longest report are skipped.
        """

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        """The last measurements of the resources that workers of live attempts use, by node."""


class KeptImage(Struct, frozen=True, kw_only=True):
    """A container image on a node: `name` as it was pulled, `size_bytes` as downloaded, `disk_bytes` on disk.

    Layers that images share count for each of them. `used_at` is when a run last began or ended in it. `node`
    is "" if the nodes of the cluster share one directory of images. An engine leaves `cluster` empty.
    """

    cluster: str = ""
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
        """The images of every reachable node. May take long; raises Unavailable."""

    def remove_image(self, image: KeptImage) -> bool:
        """Remove an image from its node; False if a run uses it. Idempotent; raises Unavailable."""

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        """On every node remove images unused for that many days, then the least recently used above the
        limit.

        Returns the number of removed images. Those of live runs stay. May take long; raises Unavailable.
        """


class StoreFiles(Protocol):
    """The files of an artifact store on another machine. Every call raises Unavailable, and may take long.

    The server makes the names. A missing directory counts as empty.
    """

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file from `offset`; None if there is no such file."""

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a file, in order from 0; the last one makes it visible, in place of any other."""

    def listing(self, prefix: str) -> Sequence[tuple[str, int, float]]:
        """Every file below a directory: name, size in bytes, modification time."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and directories with all their content; idempotent."""


class FileEntry(Struct, frozen=True, kw_only=True):
    """An entry of a directory: `kind` is `file`, `directory`, `link` or `other`."""

    name: str
    kind: str
    size_bytes: int
    modified_at: float


@runtime_checkable
class KeepsFiles(Protocol):
    """An engine whose nodes keep the files of attempts. Calls may take long, and raise Unavailable, OSError.

    All that removes something is idempotent, and is asked for ended runs alone.
    """

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        """At most `limit` entries of a directory below that of the attempt, without following links.

        Raises NotFound if there is no such directory.
        """

    def remains(self) -> Collection[str]:
        """The runs that have left files."""

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        """Remove the work files and the logs of an ended run, each if due after that many days.

        Returns the number of attempts that had such files. A notice then reports the removal.
        """

    def remove(self, run_id: str) -> None:
        """Remove all that an ended run left, artifacts included."""

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        """Remove copies of code and programs that were sent to the nodes, that no attempt of the live runs
        uses, and that were unused for that many days; returns their number.

        Copies that are needed later are made again.
        """

    def artifact_files(self, system_user: str | None = None) -> StoreFiles | None:
        """The files of a store of artifacts that the server cannot access; None if the nodes use its own.

        `system_user`: the store for the runs of that user. Returns at once.
        """


@runtime_checkable
class OpensSessions(Protocol):
    """An engine that can start a program in the environment of a running worker."""

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        """A connected stream socket to the far end of a session beside this worker (`node.session.frames`).

        Returns its file descriptor. WORKER was sent; the caller sends OPEN, and closing the socket ends the
        session with all its processes. May take long. Raises Unavailable if it cannot start now, and Refused
        if the worker has ended.
        """
