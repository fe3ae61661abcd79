"""The ports: what `control` needs from the world, each as guarantees an adapter must keep; more: `abilities`.

`store`, `engines` and `artifacts` implement them; `server/wiring.py` joins them. Each port has a fake in
the tree with knobs, and one contract suite (tests/contract) that fake and real adapters both pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar, runtime_checkable

from tarmac.model.changes import NewRun, RunStep, UsageBucket
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.dataset import Dataset
from tarmac.model.experiment import Experiments
from tarmac.model.leaving import LeaveRequest
from tarmac.model.lifecycle import RunState
from tarmac.model.metrics import MetricStore
from tarmac.model.milestones import NOTHING_SEEN, Milestones
from tarmac.model.native import NativeStatus
from tarmac.model.notification import KeepsNotifications
from tarmac.model.run import Attempt, Cause, Event, Outcome, Release, Run
from tarmac.model.run_records import RunRecords
from tarmac.model.serving import HomeIdentity, Lease, ServerRecord
from tarmac.model.spec import LocalDirectory, Repository, RunSpec
from tarmac.model.summary import RunQuery, RunSummary
from tarmac.model.usage import UsageReader
from tarmac.node.attempt.document import Launch

# --- store ------------------------------------------------------------------------------------------


class Store(UsageReader, KeepsNotifications, Protocol):
    """The durable record. After a normal return of a write, the change survives power loss.

    Every method raises Unavailable (nothing was done, try again) when the database cannot be reached,
    and StorageFull when its disk is full. Reads see all writes that returned before they began.
    """

    @property
    def metrics(self) -> MetricStore:
        """What runs reported."""
        ...

    @property
    def run_records(self) -> RunRecords:
        """What the code of runs stores by name."""
        ...

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        """Accept runs, all in one transaction, and return them as stored, in the same order.

        Idempotent by (user, idempotency key): a run accepted before under the same key is returned as it
        is now, and nothing is added for it. The caller compares specs where a clash would matter.
        """
        ...

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        """Apply steps in one transaction, each whole or not at all; True for each that was taken.

        A step whose guard does not hold is skipped (False) and leaves nothing behind; the others are
        applied, or with `whole` none of them is (all False). With a lease, the transaction is refused whole
        with LeaseLost unless its home still serves the cluster under the same token. Raises IllegalStep for
        events that the table does not allow. What an attempt that ends used (`changes.usage_of`) is added to
        the usage in the same transaction, and the messages of a step to those that are to be sent.
        """
        ...

    def run(self, run_id: str) -> Run | None:
        """The run with exactly this id."""

    def find_runs(self, reference: str, *, user: str | None = None, limit: int = 10) -> list[Run]:
        """Runs a user may mean: that exact id, else runs of that name (newest first; those of `user` alone
        if there are any), else those whose ids begin so.
        """
        ...

    def runs(self, query: RunQuery) -> list[RunSummary]:
        """A page of the list, newest first (ids sort by time of creation)."""

    def array_counts(self, array_id: str) -> Mapping[tuple[RunState, Outcome | None], int]:
        """How many members of an array are in each state, and have ended how."""

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """The runs with these ids; missing ones are left out."""

    def live_runs(self) -> list[Run]:
        """Every run that has not ended, by id."""

    def remove_runs(self, run_ids: Collection[str]) -> frozenset[str]:
        """Forget runs that have ended, with their attempts and events; which of these there were.

        All in one transaction; live runs and usage stay.
        """
        ...

    def attempts(self, run_id: str) -> list[Attempt]:
        """All attempts of a run, by number."""
        ...

    def live_attempts(self) -> list[Attempt]:
        """Every attempt that has not ended, by run id and number."""
        ...

    def events(self, run_id: str, *, after_seq: int = 0) -> list[Event]:
        """The history of a run, in order."""
        ...

    def feed(self, *, after_id: int, limit: int = 1000) -> list[Event]:
        """Events of all runs with an id above `after_id`, in order. No event ever appears below one seen."""
        ...

    def last_event_id(self) -> int:
        """The id of the newest event; 0 when there is none."""
        ...

    def servers(self) -> list[ServerRecord]:
        """Which home serves which cluster, by cluster."""
        ...

    def take_lease(self, cluster: str, home: HomeIdentity, *, after: int, now: float) -> Lease | None:
        """Make this home the one that serves the cluster, under the next token.

        None, and nothing is done, unless the token is still `after` (0: no home has served it yet).
        """
        ...

    def renew_lease(self, lease: Lease, *, now: float) -> None:
        """Note that the server of the cluster is at work; raises LeaseLost where another has taken it."""
        ...

    def drained_nodes(self) -> dict[str, Drain]:
        """The nodes that a person has drained, by name."""
        ...

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        """Drain nodes, or (None) take them back, all in one transaction; idempotent."""

    def usage(self, since: float) -> list[UsageBucket]:
        """The usage of every hour that began at `since` or later, by hour, cluster, pool, user, project."""
        ...

    def clusters(self) -> list[Cluster]:
        """The clusters that were described, by name."""
        ...

    def put_cluster(self, cluster: Cluster) -> None:
        """Keep the description of a cluster, in place of an earlier one of its name; idempotent."""
        ...

    def remove_cluster(self, name: str) -> None:
        """Forget the description of a cluster; nothing happens if there is none."""
        ...

    @property
    def experiments(self) -> Experiments:
        """The record of experiments, in the same database."""
        ...

    def datasets(self) -> list[Dataset]:
        """The datasets there are, by id."""
        ...

    def put_dataset(self, dataset: Dataset) -> None:
        """Keep the record of a dataset, in place of an earlier one of its id; idempotent."""
        ...

    def remove_dataset(self, dataset_id: str) -> None:
        """Forget a dataset; nothing happens if there is none."""
        ...


# --- engines ----------------------------------------------------------------------------------------


class ObservedState(StrEnum):
    """What an engine sees of an attempt. UNKNOWN: it cannot tell now; ABSENT: it has never heard of it.

    SUBMITTED: it waits in the queue of its system, for as long as that takes.
    """

    ABSENT = "absent"
    SUBMITTED = "submitted"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of an attempt now. `outcome` and `cause` are set when it ended.

    `claimed_at`, `started_at` and `ended_at` are the nodes' own times, where they gave them: when the first
    of them took the attempt on (None: no sign of life yet; setting up may take hours after it), when all
    workers ran, when all had ended. `native_state` is the system's own word, for people.
    `milestones` is what has been seen so far, also of an attempt that still runs. `released` are replicas
    of which nothing lives any more, certainly, while others go on. A system with a queue of its own says as
    what it knows the attempt (`native`), when it gave it nodes, and their names in the order of ranks.
    """

    state: ObservedState
    outcome: Outcome | None = None
    cause: Cause | None = None
    claimed_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    milestones: Milestones = NOTHING_SEEN
    native_state: str = ""
    released: tuple[Release, ...] = ()
    native: NativeStatus | None = None
    granted_at: float | None = None
    nodes: tuple[str, ...] = ()


class NativeRequest(Protocol):
    """An engine's own request, printable: dry run, golden test and audit record are this object."""

    @property
    def attempt_id(self) -> str: ...

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """Where workers find their artifacts, by the variable that says so; empty if only the nodes know."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """One worker of an attempt as the node reports it; `rank` as its launch has it."""

    role: str
    replica: int
    index: int
    node: str
    log: str
    pid: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a node told the run's user: what does not hold there, what could not be kept, and why."""

    at: float
    node: str
    text: str


Request = TypeVar("Request", bound=NativeRequest)


class Engine(Protocol[Request]):
    """A system that executes attempts. All methods may be called from several threads at once.

    A call may take long, or never return: it is made from threads that serve this engine alone, and under no
    lock.
    Errors: Unavailable means nothing is known to have been done, try later; InvalidInput means the same
    request will fail again. Nothing here raises for an attempt that is unknown.
    """

    name: str

    def render(self, launch: Launch) -> Request:
        """The request for this launch; pure: no I/O, the same launch gives an equal request."""
        ...

    def submit(self, request: Request) -> None:
        """Start the attempt. After a normal return it will be started exactly once, whoever crashes.

        Idempotent by attempt id: submitting again, even after a crash at any point of the first call,
        never starts it a second time.
        """
        ...

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """What is known of each, in bulk; an unknown attempt is ABSENT. Never raises for one of them."""
        ...

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        """Ask a live attempt to leave: pause file, signal, grace, SIGKILL, as its launch says. Idempotent.

        A STOP_NOW is a STOP whose SIGKILL comes at once, also where a STOP was asked before.

        A normal return means that the request was passed on; the attempt may end by itself first. A STOP
        after a PAUSE is honoured: it turns the outcome into stopped. An attempt that has never started
        on a node never will after a STOP (the node's claim is taken), and is observed as ended.
        """
        ...

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        """The workers of an attempt, as far as the nodes have reported them."""
        ...

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        """What the nodes of an attempt have told its user so far, node by node; of each node the newest."""
        ...

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        """At most `limit` bytes from `offset` of a file of the attempt directory; b"" at or after its end.

        Raises NotFound when there is no such file, or `path` leaves the attempt directory.
        """
        ...


# --- code, clock, ids -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCode:
    """A snapshot of code: the digest that names it, and the whole commit it was fetched from, if it was."""

    digest: str
    commit: str | None = None


class CodeStore(Protocol):
    """Snapshots of code, named by the digest of their content."""

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        """See to it that there is a snapshot of this code. May take long.

        Raises InvalidInput when it cannot be read or fetched, Unavailable when that may work later; nothing
        half-copied is ever visible. Idempotent.
        """
        ...

    def check_sent(self, code: LocalDirectory) -> None:
        """See to it that the snapshot that `code.digest` names is here, and no more than it may be.

        Raises InvalidInput where not. Asking counts as use: see `remove_unused`.
        """
        ...


class StreamsCode(Protocol):
    """Snapshots as engines send them to nodes that do not see the server's disk."""

    def stream(self, digest: str) -> Iterator[bytes]:
        """A snapshot, whole, in the form that `node.starting.Installation.take` puts down there.

        Raises NotFound where there is none, Unavailable when it cannot be read now.
        """
        ...


@runtime_checkable
class FetchesCode(Protocol):
    """A code store that can fetch repositories beside other work, and give up."""

    def fetch(
        self, code: Repository, proceed: Callable[[], bool], *, secret: str | None = None
    ) -> StagedCode:
        """As `CodeStore.stage`; soon after `proceed` returns false it raises Unavailable and keeps nothing.

        `secret` names the SSH key of the run, which takes the place of the server's own deploy key.
        May be called from several threads at once.
        """
        ...


ResolveReferences = Callable[[RunSpec], RunSpec]
"""Names in a spec that mean something outside it (datasets, artifacts), resolved at submission: the spec with
what they mean now. Raises InvalidInput for a name that means nothing."""


def no_references(spec: RunSpec) -> RunSpec:
    """The `ResolveReferences` of a control plane without datasets and artifacts."""
    return spec


class Clock(Protocol):
    """Time. The control plane reads it here alone, once per pass."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class Ids(Protocol):
    """New identifiers and secrets."""

    def run_id(self, now: float) -> str:
        """A new run id: sorts by `now`, safe in file names and URLs, unique."""
        ...

    def token(self) -> str:
        """A secret nobody can guess."""
        ...
