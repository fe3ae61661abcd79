"""The ports of `control` to the world, as guarantees that adapters must keep; see also `abilities`.

`store`, `engines` and `artifacts` implement them; `server/wiring.py` connects them. Each port has a fake in
the tree with knobs, and one contract suite (tests/contract) that fake and real adapters both pass.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from tarmac.model.actor import Actor, HomeIdentity, Lease, ServerRecord, Sight
from tarmac.model.burst.rentals import Rentals
from tarmac.model.changes import NewRun, RunStep, UsageBucket
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.experiment import Experiments
from tarmac.model.lifecycle import LeaveRequest, RunState
from tarmac.model.metrics import MetricStore
from tarmac.model.notification import Notifications
from tarmac.model.people.limits import Limits
from tarmac.model.people.usage import AttemptSpan, TimeRange, Used
from tarmac.model.progress import Cause, Event, NativeStatus, Notice, Outcome, Sighting, WorkerStatus
from tarmac.model.reservations import ReservedNodes
from tarmac.model.run import Attempt, Release, Run
from tarmac.model.run_records import Dataset, RunRecords
from tarmac.model.secret import SecretUse
from tarmac.model.spec import LocalDirectory, Repository, RunSpec
from tarmac.model.summary import RunQuery, RunSummary, RunViews
from tarmac.node.attempt.document import Launch

# --- store ------------------------------------------------------------------------------------------


class Store(Protocol):
    """The durable record. After a normal return of a write, the change survives power loss.

    Every method raises Unavailable (nothing was done, try again) if the database cannot be reached, and
    StorageFull if its disk is full. Reads see all writes that returned before they began.
    """

    @property
    def limits(self) -> Limits:
        """Limits and credits, in the same database."""

    @property
    def metrics(self) -> MetricStore:
        """The metrics that runs reported."""

    @property
    def notifications(self) -> Notifications:
        """The messages about runs, sent or still to be sent, in the same database."""

    @property
    def rentals(self) -> Rentals:
        """Providers, shapes and rentals, in the same database."""

    @property
    def run_records(self) -> RunRecords:
        """The records that the code of runs stores by name."""

    @property
    def run_views(self) -> RunViews:
        """Tables of runs in any order."""

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        """Accept runs, all in one transaction, and return them as stored, in the same order.

        Idempotent by (user, idempotency key): a run accepted before with the same key is returned in its
        present state, and nothing is added for it. The caller compares specs if a clash would matter.
        """

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        """Apply steps in one transaction, each completely or not at all; True for each that was applied.

        A step whose guard does not hold is skipped (False) and changes nothing; the others are applied, or
        with `whole` none of them is (all False). With a lease, the whole transaction is refused with
        LeaseLost unless its home still serves the cluster under the same token. Raises IllegalStep for events
        that the table does not allow. The same transaction adds the usage of an ending attempt
        (`changes.usage_of`) to the usage, and the messages of a step to the queue.
        """

    def run(self, run_id: str) -> Run | None:
        """The run with exactly this id."""

    def find_runs(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Run]:
        """Runs with that id, otherwise that name (newest first; of `user` if any), otherwise id prefix.

        Only those that `sight` covers (None: all).
        """

    def runs(self, query: RunQuery) -> list[RunSummary]:
        """A page of the list, newest first (ids sort by time of creation)."""

    def count_runs(self, query: RunQuery) -> int:
        """The number of all runs that match the query, whose limit does not count."""

    def array_counts(self, array_id: str) -> Mapping[tuple[RunState, Outcome | None], int]:
        """The number of members of an array by state and outcome."""

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """The runs with these ids; missing ones are left out."""

    def live_runs(self) -> Iterator[Run]:
        """Every run that has not ended, by id, read as they are taken: there may be very many."""

    def remove_runs(self, run_ids: Collection[str]) -> frozenset[str]:
        """Remove ended runs, their attempts and events in one transaction; returns their ids. Usage stays."""

    def attempts(self, run_id: str) -> list[Attempt]:
        """All attempts of a run, by number."""

    def live_attempts(self) -> list[Attempt]:
        """Every attempt that has not ended, by run id and number."""

    def events(self, run_id: str, *, after_seq: int = 0) -> list[Event]:
        """The history of a run, in order."""

    def feed(self, *, after_id: int, limit: int = 1000) -> list[Event]:
        """Events of all runs with an id above `after_id`, in order.

        None appears later below a returned id.
        """

    def last_event_id(self) -> int:
        """The id of the newest event; 0 if there is none."""

    def servers(self) -> list[ServerRecord]:
        """The home that serves each cluster, by cluster."""

    def take_lease(self, cluster: str, home: HomeIdentity, *, after: int, now: float) -> Lease | None:
        """Make this home the one that serves the cluster, under the next token.

        None, and nothing is done, unless the token is still `after` (0: no home has served it yet).
        """

    def renew_lease(self, lease: Lease, *, now: float) -> None:
        """Note that the server of the cluster is active; raises LeaseLost if another has taken over."""

    def drained_nodes(self) -> dict[str, Drain]:
        """The nodes that a person has drained, by name."""

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        """Drain nodes, or (None) undrain them, all in one transaction; idempotent."""

    def reservations(self) -> list[ReservedNodes]:
        """The reservations of nodes, by their begin and name."""

    def put_reservation(self, new: ReservedNodes) -> None:
        """Store a reservation, in place of an earlier one of its name."""

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation; does nothing if there is none."""

    def usage(self, since: float) -> list[UsageBucket]:
        """The usage of every hour that began at `since` or later, by hour, cluster, pool, user, project."""

    def attempt_spans(self, since: float, until: float) -> Sequence[AttemptSpan]:
        """The attempts that held slots within a range of time, in any order; also those of removed runs."""

    def used_slots(self, days: TimeRange, others: Sequence[TimeRange], *, by_day: bool) -> Used:
        """The usage of ended attempts in a range of whole days (UTC), in total or by day, and all attempts
        that are live or held slots within the `others`: both at the same moment, also of removed runs.
        """

    def clusters(self) -> list[Cluster]:
        """The described clusters, by name."""

    def put_cluster(self, cluster: Cluster) -> None:
        """Store the description of a cluster, in place of an earlier one of its name; idempotent."""

    def remove_cluster(self, name: str) -> None:
        """Remove the description of a cluster; does nothing if there is none."""

    @property
    def experiments(self) -> Experiments:
        """The record of experiments, in the same database."""

    def datasets(self) -> list[Dataset]:
        """All datasets, by id."""

    def put_dataset(self, dataset: Dataset) -> None:
        """Store the record of a dataset, in place of an earlier one of its id; idempotent."""

    def remove_dataset(self, dataset_id: str) -> None:
        """Remove a dataset; does nothing if there is none."""


# --- engines ----------------------------------------------------------------------------------------


class ObservedState(StrEnum):
    """The state of an attempt as its engine sees it. UNKNOWN: it cannot tell now; ABSENT: it never had it.

    SUBMITTED: it waits in the queue of its system, for any time.
    """

    ABSENT = "absent"
    SUBMITTED = "submitted"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Observation(Sighting, frozen=True, kw_only=True):
    """The present facts of an attempt. `outcome` and `cause` are set when it ended.

    `native_state` is the system's own word, for people. `released` are replicas without any living process
    while others continue. A system with its own queue also reports the attempt there (`native`), when it
    granted nodes (`granted_at`), and their names in the order of ranks.
    """

    state: ObservedState
    outcome: Outcome | None = None
    cause: Cause | None = None
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
        """The workers' artifact paths, by the variable that names each; empty if only the nodes know them."""

    def __str__(self) -> str: ...


Request = TypeVar("Request", bound=NativeRequest)


class Engine(Protocol[Request]):
    """A system that executes attempts. All methods may be called from several threads at once.

    A call may take long or never return: only threads that serve this engine make it, holding no lock.
    Errors: Unavailable means that nothing is known to have been done, try later; InvalidInput means that the
    same request will fail again. No method raises for an unknown attempt.
    """

    name: str

    def render(self, launch: Launch) -> Request:
        """The request for this launch; pure: no I/O, the same launch gives an equal request."""

    def submit(self, request: Request) -> None:
        """Start the attempt. After a normal return it starts exactly once, whichever process crashes.

        Idempotent by attempt id: submitting again, even after a crash at any point of the first call, never
        starts it a second time.
        """

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """The observations of these attempts; an unknown one is ABSENT. Never raises for one of them."""

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        """Request a live attempt to leave: pause file, signal, grace, SIGKILL, as its launch says.
        Idempotent.

        A STOP_NOW is a STOP with an immediate SIGKILL, also after a STOP. A normal return means that the
        request was passed on; the attempt may end by itself first. A STOP after a PAUSE is honoured: it turns
        the outcome into stopped. An attempt that has not started on a node never will after a STOP (the
        node's claim is taken), and is observed as ended.
        """

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        """The workers of an attempt that the nodes have reported."""

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        """The newest notices of each node of an attempt, node by node."""

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        """At most `limit` bytes from `offset` of a file of the attempt directory; b"" at or after its end.

        Raises NotFound if there is no such file, or if `path` leaves the attempt directory.
        """


# --- code, clock, ids -------------------------------------------------------------------------------


class StagedCode(Struct, frozen=True, kw_only=True):
    """A snapshot of code: its digest, and the full commit if it was fetched from a repository."""

    digest: str
    commit: str | None = None


class CodeStore(Protocol):
    """Snapshots of code, named by the digest of their content."""

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        """Make sure that there is a snapshot of this code. May take long.

        Raises InvalidInput if it cannot be read or fetched, and Unavailable if that may work later; a partial
        copy is never visible. Idempotent.
        """

    def check_sent(self, code: LocalDirectory) -> None:
        """Make sure that the snapshot of `code.digest` is here, and within its limit.

        Raises InvalidInput otherwise. The check counts as use: see `remove_unused`.
        """


class StreamsCode(Protocol):
    """Snapshots in the form that engines send to nodes without access to the server's disk."""

    def parts(self, digest: str) -> Sequence[str]:
        """The large contents of a snapshot, by hash: it needs them beside it, and several may share them."""

    def stream(self, digest: str) -> Iterator[bytes]:
        """A snapshot, or a part, in the form that `node.starting.Installation.take` unpacks there.

        Raises NotFound if there is none, Unavailable if it cannot be read now.
        """


@runtime_checkable
class FetchesCode(Protocol):
    """A code store that can fetch repositories in parallel with other work, and give up."""

    def fetch(
        self, code: Repository, proceed: Callable[[], bool], *, secret: SecretUse | None = None
    ) -> StagedCode:
        """Like `CodeStore.stage`; soon after `proceed` returns false it raises Unavailable and keeps nothing.

        `secret` is the SSH key of the run, which replaces the server's own deploy key. May be called from
        several threads at once.
        """


ResolveReferences = Callable[[RunSpec, Actor | None], RunSpec]
"""Resolves a spec's names of datasets, artifacts and secrets at submission by an actor.

The actor None: of a spec whose secrets are resolved, only the other names. Raises InvalidInput for an unknown
name, and for a secret that the actor may not use.
"""


def no_references(spec: RunSpec, _actor: Actor | None) -> RunSpec:
    """The `ResolveReferences` of a control plane without datasets, artifacts and secrets."""
    return spec


class Clock(Protocol):
    """Time. The control plane reads it only here, once per reconciler pass."""

    def now(self) -> float:
        """Seconds since the epoch."""


class Ids(Protocol):
    """New identifiers and secrets."""

    def run_id(self, now: float) -> str:
        """A new run id: unique, sorts by `now`, safe in file names and URLs."""

    def token(self) -> str:
        """A secret that cannot be guessed."""
