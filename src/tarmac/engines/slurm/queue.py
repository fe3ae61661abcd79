"""Slurm's queue by one bulk query for any number of attempts. Called by `SlurmEngine` and `CommandAccess`.

`squeue --me` is the cheap form: the controller filters by user, and returns exit code 0 even if jobs are
gone.
"""

import calendar
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock
from typing import Protocol

from tarmac.engines.slurm.commands import BackgroundReader, Commands
from tarmac.engines.slurm.states import Stage, meaning, reason_of
from tarmac.model.run import attempt_id as attempt_id_of
from tarmac.model.run import split_attempt_id

NAME_PREFIX = "tarmac-"

SQUEUE = ("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%S|%e|%r|%j")
SACCT = ("sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State,Start,End,JobName")
REMEMBERED = "now-30days"
"""The start of queries to accounting: the default would be midnight."""

_JOB_ID = re.compile(r"([0-9]+)(?:\+[0-9]+)?")
"""A heterogeneous job has a line for each of its components, 7+0 and 7+1: its id precedes the sign."""

ENDS_BY_WEIGHT = (
    *("NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "DEADLINE", "CANCELLED"),
    *("LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "FAILED"),
)
"""Ends of a component, from one that ends the other components to the least informative."""

PENDING = ("squeue", "--noheader", "--states=PENDING", "--format=%i|%Q|%P|%j")

_COUNTED = re.compile(r"([0-9]+)(?:\+0|_.*)?")
"""A job, the leader of a heterogeneous one, or an array: each counts once among waiting jobs."""

_NO_REASON = ("", "None", "(null)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in Slurm's records; `start_at` is its start, or the expected one, and `end_at` likewise.

    `words` are those of a site about its failure.
    """

    id: str
    attempt_id: str
    state: str
    reason: str = ""
    start_at: float | None = None
    end_at: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of tarmac's jobs by attempt, from one query that began at `began_at` of the monotonic clock."""

    began_at: float
    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)

    def job(self, attempt_id: str, job_id: str | None) -> Job | None:
        """The job of an attempt; of several (an answer was lost) the one with that id, else the first."""
        found = self.of(attempt_id, job_id)
        return next((job for job in found if job_id in (None, job.id)), None)

    def of(self, attempt_id: str, job_id: str | None) -> Sequence[Job]:
        """The jobs named after an attempt, and the job with that id, in which an earlier turn began.

        A job of an unknown attempt counts by its id.
        """
        found = self.jobs.get(attempt_id, ())
        if any(job_id in (None, job.id) for job in found):
            return found
        run_id, number = split_attempt_id(attempt_id)
        earlier = (self.jobs.get(attempt_id_of(run_id, before), ()) for before in range(1, number))
        return [*found, *(job for job in chain(self.jobs.get("", ()), *earlier) if job.id == job_id)]


class QueueAccess(Protocol):
    """One user's access to the queue. Every call may raise Unavailable."""

    def jobs(self) -> Mapping[str, Sequence[Job]]:
        """The user's current and recent jobs by attempt, in one query; "": those of an unknown attempt."""

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        """The records of these jobs, of which `jobs` has none."""

    def named(self, attempt_id: str) -> Job | None:
        """The job of an attempt that `jobs` does not show, by its name."""


class Queue:
    """The queue, queried at most every `every_s`. Thread-safe; others wait during a query."""

    def __init__(self, access: QueueAccess, *, every_s: float) -> None:
        self._access = access
        self._every_s = every_s
        self._lock = Lock()
        self._last: Snapshot | None = None

    def now(self, *, fresh: bool = False) -> Snapshot:
        """The current or a recent queue; `fresh`: from after this call began. Raises Unavailable."""
        called_at = time.monotonic()
        with self._lock:
            newest = called_at if fresh else called_at - self._every_s
            if self._last is None or self._last.began_at < newest:
                began_at = time.monotonic()
                self._last = Snapshot(began_at=began_at, jobs=self._access.jobs())
            return self._last

    def recorded(self, job_ids: Sequence[str]) -> Snapshot:
        """Jobs missing from the queue, by accounting, if the site has it."""
        found: dict[str, list[Job]] = {}
        for job in self._access.recorded(job_ids) if job_ids else ():
            found.setdefault(job.attempt_id, []).append(job)
        return Snapshot(began_at=time.monotonic(), jobs=found)

    def named(self, attempt_id: str) -> str | None:
        """The id of an attempt's job, in the queue or in accounting. Raises Unavailable."""
        found = self.now(fresh=True).job(attempt_id, None) or self._access.named(attempt_id)
        return found.id if found is not None else None


def parse_queue(text: str) -> dict[str, list[Job]]:
    """The lines of SQUEUE for tarmac's jobs, by attempt; other output of a site is ignored."""
    found: dict[str, list[Job]] = {}
    lines = (line.strip().split("|", 5) for line in text.splitlines())
    for job in _jobs(fields for fields in lines if len(fields) == 6):
        found.setdefault(job.attempt_id, []).append(job)
    return found


def parse_accounting(text: str) -> Iterable[Job]:
    """The jobs in the lines of SACCT."""
    lines = (line.strip().split("|", 4) for line in text.splitlines())
    return _jobs((*fields[:4], "", fields[4]) for fields in lines if len(fields) == 5)


def _jobs(lines: Iterable[Sequence[str]]) -> Iterable[Job]:
    """Tarmac's jobs, from lines of id, state, start, end, reason and name: one for all its components."""
    found: dict[str, list[Job]] = {}
    for number, state, start, end, reason, name in lines:
        match = _JOB_ID.fullmatch(number)
        if match is not None and name.startswith(NAME_PREFIX):
            job = Job(
                id=match[1],
                attempt_id=name.removeprefix(NAME_PREFIX),
                state=state,
                reason="" if reason in _NO_REASON else reason,
                start_at=parse_time(start),
                end_at=parse_time(end),
            )
            found.setdefault(job.id, []).append(job)
    return [whole_job(components) for components in found.values()]


def whole_job(components: Sequence[Job]) -> Job:
    """A job from its components, the leader first: not ended until all of them are.

    Its reason for waiting is the worst one, and its end that of the most informative component.
    """
    leader = components[0]
    if len(components) == 1:
        return leader
    alive = [each for each in components if meaning(each.state).stage is not Stage.OVER]
    by_end = sorted(components, key=lambda each: _rank(each.state))
    reasons = sorted((each.reason for each in components), key=_weight, reverse=True)
    starts, ends = [each.start_at for each in components], [each.end_at for each in components]
    return replace(
        leader,
        state=(alive or by_end)[0].state,
        reason=reasons[0],
        start_at=None if None in starts else max(filter(None, starts)),
        end_at=None if None in ends else max(filter(None, ends)),
    )


def _rank(state: str) -> int:
    word = state.partition(" ")[0]
    return ENDS_BY_WEIGHT.index(word) if word in ENDS_BY_WEIGHT else len(ENDS_BY_WEIGHT)


def _weight(reason: str) -> tuple[bool, bool]:
    """The weight of a component's reason for waiting: whether it is permanent, and whether there is one."""
    known = reason_of(reason)
    return known is not None and known.stuck, bool(reason)


def parse_time(text: str) -> float | None:
    """A time in a query's output (UTC) in seconds; None for N/A, Unknown and None."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a job among those that wait in its partition, 1 for the next, and their number."""

    place: int
    waiting: int


class Places:
    """The places of tarmac's jobs among all waiting jobs, read at most every `every_s`. Thread-safe.

    This needs the whole queue of the site, so there is one query a minute for any number of jobs.
    """

    def __init__(self, commands: Commands, *, every_s: float) -> None:
        self._commands = commands
        self._known: Mapping[str, Place] = {}
        what = "the place of jobs in the queue"
        self._reader = BackgroundReader(self._read, what, every_s=every_s, again_s=every_s)

    def place_of(self, job_id: str) -> Place | None:
        """The place of a waiting job, by the last read; None if it is unknown, or the job is held."""
        self._reader.when_due()
        return self._known.get(job_id)

    def _read(self) -> None:
        self._known = parse_places(self._commands.query(PENDING))


def parse_places(text: str) -> dict[str, Place]:
    """The places of tarmac's jobs, from the lines of PENDING.

    A higher priority is earlier, then the smaller number; a job with priority 0 is held. The place of a job
    with several partitions is its best one.
    """
    jobs = []
    for line in text.splitlines():
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and (match := _COUNTED.fullmatch(fields[0])) and fields[1].isdigit():
            jobs.append((-int(fields[1]), int(match[1]), fields[2].split(","), fields[3]))
    waiting: Counter[str] = Counter()
    found: dict[str, tuple[int, str]] = {}
    for priority, number, partitions, name in sorted(jobs):
        if priority < 0:
            waiting.update(partitions)
            if name.startswith(NAME_PREFIX):
                found[str(number)] = min((waiting[each], each) for each in partitions)
    return {number: Place(place, waiting[partition]) for number, (place, partition) in found.items()}
