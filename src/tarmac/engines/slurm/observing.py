"""Derives the state of an attempt from its runners' reports and its job's state. Called by `SlurmEngine`.

Runners' reports take precedence: they name the failed worker and the cause. If Slurm ended the job, or the
runners could not report, the job's state is the cause. A job that Slurm no longer knows never counts as
completed.
"""

import dataclasses
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts.host import Host
from tarmac.engines.slurm import files
from tarmac.engines.slurm.queue import Job, Place
from tarmac.engines.slurm.states import GONE, LOGIN_FAILED, SILENT, Reason, Stage, explained, meaning
from tarmac.model.codec import replace
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.loss import LEFT_AS_REQUESTED, lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, NativeStatus, Outcome
from tarmac.node.attempt.document import Unreadable, read_document
from tarmac.node.files import untrusted

REQUEUED = "requeued"
TAKEN_BACK = "taken back"
"""Replaces a job's id: no job of the attempt ever begins."""

NOT_SHARED = "its nodes do not see that directory, which they have to share with the machine of sbatch"

FARTHEST_START_S = 180 * 86400.0
"""Slurm plans a job without a time limit for 365 days: later expected starts are meaningless."""

_SLURMS_DOING = frozenset(
    {
        CauseCode.USER_REQUEST,
        CauseCode.PREEMPTION,
        CauseCode.TIME_LIMIT,
        CauseCode.WALL_TIME,
        CauseCode.NODE_LOST,
    }
)
"""Causes by which Slurm itself ended a job, regardless of the workers' exits after its signal."""

CANCEL_AFTER_S = 30.0
"""Seconds after the grace until a stopped attempt's job is cancelled, if its runners did not end it."""

CLOCKS_S = 2.0
"""The maximum difference between clocks of nodes and controller, plus Slurm's rounding to seconds."""

FOLLOWED = 200
"""Beyond this number of running attempts they are read more rarely, to limit the load on the disk."""

_TAIL_BYTES = 4000
_TAIL_LINES = 10
_MEMORY = re.compile(r"exceeded (job |step )?memory limit|oom[-_ ]kill", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JobLog:
    """The log of the job itself, at the site."""

    host: Host
    directory: Path

    def is_missing(self) -> bool:
        """Whether there is none: Slurm makes it, on the first node, before any command of the job."""
        return self._last(1) is None

    def tail(self) -> tuple[str, ...]:
        """Its last lines, if it is readable now."""
        text = self._last(_TAIL_BYTES) or b""
        return tuple(text.decode(errors="replace").splitlines()[-_TAIL_LINES:])

    def _last(self, limit: int) -> bytes | None:
        """Its last bytes: None if there is no log, none if it is not readable now."""
        try:
            return self.host.last(self.directory, files.LOG, limit=limit)
        except (OSError, ValueError, Unavailable):
            return b""


def begun(directory: Path) -> str | None:
    """The id of the job that runs the attempt, TAKEN_BACK, or None if none has begun."""
    return _read(directory / files.BEGUN)


def any_begun(layout: Layout) -> bool:
    """Whether the job of any attempt has begun: then a node has seen the directory of the cluster."""
    return any(begun(path.parent) != TAKEN_BACK for path in layout.runs.glob(f"*/attempts/*/{files.BEGUN}"))


def submitted(directory: Path) -> str | None:
    """The id of the submitted job, if its answer arrived."""
    return _read(directory / files.SUBMITTED)


def job_id(directory: Path) -> str | None:
    """The id of the job that runs the attempt, else of the submitted one."""
    found = begun(directory)
    return found if found not in (None, TAKEN_BACK) else submitted(directory)


def taken_back(view: AttemptView) -> Observation:
    """The observation of an attempt that never began, and never will."""
    request = view.leave_request()
    if request is not None:
        return Observation(state=ObservedState.ENDED, outcome=LEFT_AS_REQUESTED[request])
    return lost("its job was taken back before it began")


def reported(view: AttemptView) -> Observation:
    """The observation by the runners' reports, including their last events."""
    view.refresh()
    for node in view.nodes:
        if node.done:
            node.take_last_word()
    return view.observation()


def left_as_requested(view: AttemptView, seen: Observation) -> bool:
    """Whether an end needs no explanation by Slurm: tarmac requested it.

    Slurm may have caused any other end: it also signals the workers, which then fail, or save and exit with
    0.
    """
    requested = (Outcome.PAUSED, Outcome.PREEMPTED, Outcome.STOPPED)
    as_requested = seen.state is ObservedState.ENDED and seen.outcome in requested
    return as_requested and over_as(view.directory) is None


def left(view: AttemptView, job_id: str) -> Observation | None:
    """The end of an attempt that left on request, regardless of Slurm; None for every other."""
    seen = reported(view)
    as_requested = view.damage is None and left_as_requested(view, seen)
    return with_job(seen, None, job_id) if as_requested else None


def expected_start_at(job: Job, now: float) -> float | None:
    """The start that Slurm expects for a waiting job; None if it depends on jobs without a time limit."""
    return job.start_at if job.start_at is not None and job.start_at - now < FARTHEST_START_S else None


def going_on(
    view: AttemptView,
    job: Job,
    seen: Observation,
    *,
    place: Place | None = None,
    reason: Reason | None = None,
    forgotten_s: float = math.inf,
) -> Observation:
    """The observation of a job that waits or has nodes: waiting until every node has reported its name.

    Runners' reports of the end count after Slurm has missed it for `forgotten_s`; see `Tempo`. `reason`: a
    more exact reason for waiting than Slurm's.
    """
    native = NativeStatus(id=job.id, state=job.state, reason=job.reason)
    if meaning(job.state).stage is Stage.WAITS:
        native = replace(explained(native, reason), expected_start_at=expected_start_at(job, time.time()))
        if place is not None and not native.stuck:
            native = replace(native, place=place.place, waiting=place.waiting)
    if seen.state is ObservedState.ENDED:  # the job has not ended, so the cause may still change
        over_s = time.time() - seen.ended_at if seen.ended_at is not None else 0.0
        if job.state == "RUNNING" and seen.outcome is not Outcome.LOST and over_s > forgotten_s:
            return with_job(seen, job, job.id)
        seen = Observation(state=ObservedState.UNKNOWN, native_state=job.state)
    elif any(node.facts.state is PartState.UNCLAIMED for node in view.nodes) or not seen.nodes:
        return Observation(state=ObservedState.SUBMITTED, native=native, native_state=job.state)
    return replace(seen, native=replace(native, reason=""), granted_at=job.start_at or seen.claimed_at)


def ended(view: AttemptView, job: Job | None, job_id: str, seen: Observation, *, log: JobLog) -> Observation:
    """The end of an attempt whose job has ended, or is gone (None)."""
    silent = all(node.facts.state is PartState.UNCLAIMED for node in view.nodes)
    end = GONE if job is None else meaning(job.state)
    if job is not None and job.state == "FAILED" and any(map(_MEMORY.search, log.tail())):
        # Slurm ended it for its memory: where Slurm itself counts that, the state omits it.
        end = meaning("OUT_OF_MEMORY")
    message, path = f"job {job_id} {end.text}", log.directory / files.LOG
    if job is not None and job.words:
        message += f": {job.words}"
    if silent and end is SILENT and log.is_missing() and not any_begun(log.host.seen):
        message += f" and left nothing in {log.directory}: {NOT_SHARED}"
        end = dataclasses.replace(end, outcome=Outcome.FAILED, code=CauseCode.UNSUPPORTED)
    elif silent and job is None and log.is_missing():
        message += ", nor that it ever began"
    elif silent and end.outcome is Outcome.LOST:
        wrote_none = f", and could not write {path}: do its nodes see that directory?"
        message += wrote_none if log.is_missing() else f"; {path} has what it said"
    request, stopped_by_us = view.leave_request(), over_as(view.directory) is not None
    reported_end = seen.state is ObservedState.ENDED and (
        seen.outcome is not Outcome.LOST or end.outcome is Outcome.LOST
    )
    if job is not None and job.state == LOGIN_FAILED and seen.outcome is Outcome.COMPLETED:
        reported_end = False  # a command after the job failed
    if stopped_by_us:
        request, reported_end = None, reported_end and seen.outcome is not Outcome.STOPPED
    own_limit = seen.cause is not None and seen.cause.code is CauseCode.TIME_LIMIT
    if reported_end and (own_limit or _ended_before(seen, job) or end.code not in _SLURMS_DOING):
        if (
            end.code is not CauseCode.OUT_OF_MEMORY
            or seen.outcome is not Outcome.FAILED
            or seen.cause is None
        ):
            return seen
        return replace(seen, cause=replace(seen.cause, code=end.code, message=message))
    outcome, cause = end.outcome, Cause(code=end.code, message=message)
    if request is not None and outcome in (Outcome.STOPPED, Outcome.PREEMPTED):
        outcome, cause = LEFT_AS_REQUESTED[request], replace(cause, message=f"left as asked: {cause.message}")
    if outcome is Outcome.LOST and silent:
        cause = replace(cause, tail=log.tail())
    return replace(
        seen,
        state=ObservedState.ENDED,
        outcome=outcome,
        cause=cause,
        native=NativeStatus(id=job_id, state=job.state if job is not None else ""),
    )


def _ended_before(seen: Observation, job: Job | None) -> bool:
    """Whether the runners had ended before Slurm ended the job, so that Slurm is not the cause.

    A restarted controller that finds no trace of a job considers it cancelled.
    """
    ended_at, job_ended_at = seen.ended_at, job.end_at if job is not None else None
    return ended_at is not None and job_ended_at is not None and ended_at + CLOCKS_S < job_ended_at


def over_as(directory: Path) -> str | None:
    """The state of a job that ended while its runners lived, which were then asked to stop; else None."""
    return _read(directory / files.OVER)


def requeued(job_id: str) -> Observation:
    """The end of an attempt whose job had begun and waits again: another attempt replaces it."""
    message = f"job {job_id} was put back into Slurm's queue after it had begun"
    cause = Cause(code=CauseCode.PREEMPTION, message=message)
    return Observation(state=ObservedState.ENDED, outcome=Outcome.PREEMPTED, cause=cause)


def with_job(seen: Observation, job: Job | None, job_id: str) -> Observation:
    """An end with its job, and with the time since which the job had nodes."""
    native = NativeStatus(id=job_id, state=job.state if job is not None else "")
    began_at = seen.claimed_at and (job.start_at if job is not None else None)
    return replace(seen, native=native, granted_at=began_at or seen.claimed_at)


def just_submitted(job_id: str) -> Observation:
    """The observation of a job that was submitted after the last query."""
    native = NativeStatus(id=job_id, state="PENDING", reason="just submitted")
    return Observation(state=ObservedState.SUBMITTED, native=native, native_state="PENDING")


def stop_is_overdue(view: AttemptView) -> bool:
    """Whether the grace of a stopped attempt ended more than `CANCEL_AFTER_S` ago."""
    try:
        request = untrusted.read_object(view.paths.ask)
        if request.get("ask") not in (LeaveRequest.STOP, LeaveRequest.STOP_NOW):
            return False
        grace_s = (
            read_document(view.paths.description).grace_s if request["ask"] == LeaveRequest.STOP else 0.0
        )
        return time.time() - float(request["at"]) - grace_s > CANCEL_AFTER_S
    except (OSError, ValueError, KeyError, TypeError, Unreadable):
        return False


def _read(path: Path) -> str | None:
    try:
        return untrusted.read_bytes(str(path), 100).decode(errors="replace").strip() or None
    except (OSError, ValueError):
        return None


class Following:
    """Watches running attempts for the last event of their runners; `tell` is called for one that ended.

    Queries to Slurm are rare without news; reading a few small files is cheap. Thread-safe; idle while no
    attempt runs.
    """

    def __init__(self, host: Host, views: Views, tell: Callable[[str], None], *, every_s: float) -> None:
        self._host = host
        self._views = views
        self._tell = tell
        self._every_s = every_s
        self._lock = Lock()
        self._running: set[str] = set()
        self._waits = False

    def note(self, attempt_id: str, *, runs: bool) -> None:
        """Follow an attempt, or stop following it."""
        with self._lock:
            if runs:
                self._running.add(attempt_id)
            else:
                self._running.discard(attempt_id)
            self._look_later()

    def _look_later(self) -> None:
        if self._running and not self._waits:
            self._waits = True
            timer = Timer(self._every_s * max(1.0, len(self._running) / FOLLOWED), self._look)
            timer.daemon = True
            timer.start()

    def _look(self) -> None:
        with self._lock:
            running = list(self._running)
        ended = self._ended(running)
        with self._lock:
            self._running.difference_update(ended)  # the listener observes them, which shows more
            self._waits = False
            self._look_later()
        for attempt_id in ended:
            self._tell(attempt_id)

    def _ended(self, attempt_ids: list[str]) -> list[str]:
        try:
            self._host.refresh(attempt_ids)
        except Unavailable:
            return []
        views = [view for view in map(self._views.find, attempt_ids) if view is not None]
        return [view.attempt_id for view in views if _reported_over(view)]


def _reported_over(view: AttemptView) -> bool:
    """Whether each runner has written its last event."""
    with view.lock:
        view.refresh()
        return bool(view.nodes) and all(node.over or node.done for node in view.nodes)
