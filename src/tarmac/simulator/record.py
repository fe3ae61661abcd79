"""The record of a play: each job's times, the length of the queue, and the use of the cluster.

Read from the store's events as they come, so that it is valid whenever a play ends. Kept by `playing`, and
read by `measures` and `comparing`.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from tarmac.model.lifecycle import Mode, RunEvent, RunState
from tarmac.model.progress import Event, Outcome
from tarmac.simulator.jobs import Job
from tarmac.simulator.play_store import PlayStore

FEED = 1000
"""Events read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedMachines:
    """The machines that a job rented: since `rented_at`, at a rate for all of them and one hour.

    The job runs on them from `begins_at` to `ends_at`; `failed`: its time limit ends it then.
    """

    machines: int
    rate: float
    rented_at: float
    begins_at: float
    ends_at: float
    failed: bool = False

    def hours(self, now: float) -> float:
        """How long they have been rented by then."""
        return (min(now, self.ends_at) - self.rented_at) / 3600.0

    def cost(self, now: float) -> float:
        """The money for them by then."""
        return self.rate * self.hours(now)


@dataclass(slots=True, kw_only=True)
class Passage:
    """The history of one job: times are virtual, None for events that have not happened.

    `queued_at` is since when it waits in the queue (None: it does not).
    """

    job: Job
    run_id: str
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    held_s: float = 0.0
    preemptions: int = 0
    placed_at: float | None = None
    placed: bool = False
    queued_at: float | None = None
    rented: RentedMachines | None = None
    failed: bool = False
    intervals: list[tuple[float, float]] = field(default_factory=list)  # of interruptible jobs alone

    @property
    def completion_s(self) -> float:
        """From submission to end, for a job that has ended."""
        return self.ended_at - self.submitted_at if self.ended_at is not None else 0.0


class Record:
    """The passages of the jobs of a play, and the state of the cluster over time."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.passages: dict[int, Passage] = {}
        self.never_fits: dict[int, str] = {}
        self.without_offer: set[int] = set()
        self.complete = False
        self.ended = 0
        self.now = 0.0
        self.times = array("d")
        self.present = array("l")
        self.queued = array("l")
        self.busy_slots = array("l")
        self.last_event_id = 0
        self._numbers: dict[str, int] = {}
        self._over: list[str] = []
        self._newly_queued: list[int] = []
        self._queued = 0
        self._gone = 0
        self._busy_slots = 0

    def waiting(self, number: int) -> str | None:
        """The run of this job, if it is queued and has never been placed."""
        passage = self.passages.get(number)
        if passage is None or passage.queued_at is None or passage.placed:
            return None
        return passage.run_id

    def number_of(self, run_id: str) -> int:
        """The number of the job of a run."""
        return self._numbers[run_id]

    def accepted(self, number: int, run_id: str, now: float) -> None:
        """Record that a job was accepted."""
        self._numbers[run_id] = number
        self.passages[number] = Passage(job=self.jobs[number], run_id=run_id, submitted_at=now)

    def refused(self, number: int, reason: str) -> None:
        """Record that a job was refused: it could never start."""
        self.never_fits[number] = reason
        self.ended += 1

    def rented(self, number: int, machines: RentedMachines) -> None:
        """Record that a queued job rented machines: its run is stopped, and it runs on them to its end."""
        passage = self.passages[number]
        passage.rented = machines
        if passage.started_at is None:
            passage.started_at = machines.begins_at

    def returned(self, number: int, at: float) -> None:
        """Record that a job on rented machines has ended."""
        passage = self.passages[number]
        assert passage.rented is not None, "it rented machines"
        passage.held_s += at - passage.rented.begins_at
        passage.ended_at = at
        passage.failed = passage.rented.failed
        self.ended += 1
        self._gone += 1

    def take(self, store: PlayStore, now: float) -> None:
        """Record the events since the last call."""
        self.now = now
        full = True
        while full:
            events = store.feed(after_id=self.last_event_id, limit=FEED)
            for event in events:
                self._event(event)
            full = len(events) == FEED
            if events:
                self.last_event_id = events[-1].id
        self.times.append(now)
        self.present.append(len(self.passages) - self._gone)
        self.queued.append(self._queued)
        self.busy_slots.append(self._busy_slots)

    def take_queued(self) -> list[int]:
        """The jobs that were queued since the last call."""
        queued, self._newly_queued = self._newly_queued, []
        return queued

    def take_over(self) -> list[str]:
        """The runs that have ended since the last call; the record needs nothing more of them."""
        over, self._over = self._over, []
        for run_id in over:
            del self._numbers[run_id]
        return over

    def _event(self, event: Event) -> None:
        kind, state, at = event.event, event.state, event.at
        number = self._numbers[event.run_id]
        passage = self.passages[number]
        if kind is RunEvent.PLACED:
            self._queued -= 1
            self._busy_slots += passage.job.slots
            passage.placed_at = at
            passage.placed = True
            passage.queued_at = None
            return
        if kind is RunEvent.STARTED and passage.started_at is None:
            passage.started_at = at
        if state is RunState.QUEUED:
            self._leave(passage, at)
            self._queued += 1
            passage.queued_at = at
            self._newly_queued.append(number)
            if kind is RunEvent.VACATED:
                passage.preemptions += 1
        elif state is RunState.ENDED:
            if passage.placed_at is None:
                self._queued -= 1
            self._leave(passage, at)
            self._over.append(event.run_id)
            passage.queued_at = None
            if passage.rented is not None:
                return
            passage.ended_at = at
            passage.failed = event.detail.get("outcome") != Outcome.COMPLETED
            self.ended += 1
            self._gone += 1

    def _leave(self, passage: Passage, at: float) -> None:
        if passage.placed_at is not None:
            self._busy_slots -= passage.job.slots
            passage.held_s += at - passage.placed_at
            if passage.job.mode is Mode.INTERRUPTIBLE:
                passage.intervals.append((passage.placed_at, at))
            passage.placed_at = None
