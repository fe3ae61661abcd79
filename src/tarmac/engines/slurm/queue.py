"""Slurm's queue as one bulk query tells it, whatever the number of attempts. Called by `SlurmEngine`.

`squeue --me` is the cheap form: the controller filters by user, and answers with exit code 0 whichever jobs
are gone.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from tarmac.engines.slurm.commands import Commands
from tarmac.model.errors import Unavailable

NAME_PREFIX = "tarmac-"
"""What the name of a job begins with; the attempt's id follows."""

SQUEUE = ("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%S|%e|%r|%j")
SACCT = ("sacct", "--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,State,Start,End,JobName")
REMEMBERED = "now-30days"
"""How far back accounting is asked: without a start it looks no further than midnight."""

_JOB_ID = re.compile(r"[0-9]+")
_NO_REASON = ("", "None", "(null)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as Slurm tells it; `start_at` is when it began, or is expected to, and `end_at` likewise."""

    id: str
    attempt_id: str
    state: str
    reason: str = ""
    start_at: float | None = None
    end_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All jobs of ours by attempt, as of one query that began at `began_at` of the monotonic clock."""

    began_at: float
    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)

    def job(self, attempt_id: str, job_id: str | None) -> Job | None:
        """The job of an attempt; of several (an answer was lost) the one of that id, else the first."""
        found = self.jobs.get(attempt_id, ())
        same = [job for job in found if job.id == job_id]
        return next(iter(same if job_id is not None else found), None)


class Queue:
    """The queue, asked at most every `every_s`. Thread-safe; others wait while one is asked."""

    def __init__(self, commands: Commands, *, every_s: float) -> None:
        self._commands = commands
        self._every_s = every_s
        self._lock = Lock()
        self._last: Snapshot | None = None
        self._accounts = True

    def now(self, *, fresh: bool = False) -> Snapshot:
        """The queue as it is, or was lately; `fresh`: after this call began. Raises Unavailable."""
        called_at = time.monotonic()
        with self._lock:
            newest = called_at if fresh else called_at - self._every_s
            if self._last is None or self._last.began_at < newest:
                began_at = time.monotonic()
                self._last = Snapshot(began_at=began_at, jobs=parse_queue(self._commands.query(SQUEUE)))
            return self._last

    def recorded(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """Jobs that the queue has forgotten, by attempt, as accounting tells them, where there is any."""
        if not job_ids:
            return {}
        return {job.attempt_id: job for job in self._account([f"--jobs={','.join(job_ids)}"])}

    def named(self, attempt_id: str) -> str | None:
        """The id of a job that an attempt has, in the queue or in accounting. Raises Unavailable."""
        found = self.now(fresh=True).job(attempt_id, None)
        if found is not None:
            return found.id
        recorded = self._account([f"--name={NAME_PREFIX}{attempt_id}"])
        return next((job.id for job in recorded if job.attempt_id == attempt_id), None)

    def _account(self, which: Sequence[str]) -> list[Job]:
        if not self._accounts:
            return []
        try:
            answer = self._commands.run([*SACCT, f"--starttime={REMEMBERED}", *which])
        except Unavailable:
            return []  # the queue answered: what it says counts alone
        if answer.code != 0:
            self._accounts = "storage is disabled" not in answer.err
            return []
        return list(parse_accounting(answer.out))


def parse_queue(text: str) -> dict[str, list[Job]]:
    """The lines of SQUEUE that are jobs of ours, by attempt; whatever else a site prints is passed over."""
    found: dict[str, list[Job]] = {}
    for line in text.splitlines():
        fields = line.strip().split("|", 5)
        if len(fields) == 6 and _JOB_ID.fullmatch(fields[0]) and fields[5].startswith(NAME_PREFIX):
            number, state, start, end, reason, name = fields
            job = Job(
                id=number,
                attempt_id=name.removeprefix(NAME_PREFIX),
                state=state,
                reason="" if reason in _NO_REASON else reason,
                start_at=parse_time(start),
                end_at=parse_time(end),
            )
            found.setdefault(job.attempt_id, []).append(job)
    return found


def parse_accounting(text: str) -> Iterable[Job]:
    """The lines of SACCT."""
    for line in text.splitlines():
        fields = line.strip().split("|", 4)
        if len(fields) == 5 and _JOB_ID.fullmatch(fields[0]) and fields[4].startswith(NAME_PREFIX):
            number, state, start, end, name = fields
            yield Job(
                id=number,
                attempt_id=name.removeprefix(NAME_PREFIX),
                state=state,
                start_at=parse_time(start),
                end_at=parse_time(end),
            )


def parse_time(text: str) -> float | None:
    """A time as queries tell it (UTC) in seconds; None for N/A, Unknown and None."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None
