"""The end of an attempt: a run's counts (failures, faults, preemptions, turns, time), and its next try.

Each count is separate: only failures use up retries, only turns those of a cycle run. The pauses between
tries grow from seconds to minutes. A variation keeps runs that failed together from returning together; it
follows from the attempt's id, so that a repeated decision is the same. A long attempt resets the pauses. An
identical end is not retried: the same exit with the same last lines, twice in a row within seconds of the
start. Pure; called by `apply_observation`.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest, Mode
from tarmac.model.progress import Cause, CauseCode, CycleReport, LogAction, LogMatch, Outcome, Share
from tarmac.model.run import Attempt, Release, Retry, Run, block_begins_at

EPSILON_S = 1e-6
"""The tolerance for sums of times."""

GONE_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.LOST})
"""Outcomes of an attempt after which the run continues from its last point, with the same time limit."""

FIRST_S = 2.0
LONGEST_S = 300.0
JITTER = 0.25
"""The relative variation of a pause, in both directions."""

LONG_S = 600.0
"""An attempt of this duration was no failed start: the next pause is the first again."""

QUICK_S = 10.0
"""An end within this time of the start is compared with the previous one."""

MAX_FAULTS = 3
"""The number of attempts that the platform may lose before the run is given up."""

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""Text that varies between otherwise equal lines: addresses, times, process ids."""

_NO_RETRY = frozenset({CauseCode.TIME_LIMIT, CauseCode.UNSUPPORTED})
"""Causes that every retry would meet again."""


def counted(run: Run, attempt: Attempt, *, retried: bool, **more: Any) -> Run:
    """The run with the counts of its ended attempt added, and with these fields changed.

    A retried run restarts its time limit.
    """
    outcome, turn = attempt.outcome, turn_is_over(run, attempt)
    ran_s = run.ran_s
    if outcome in GONE_ON and attempt.started_at is not None and attempt.ended_at is not None:
        ran_s += max(0.0, attempt.ended_at - attempt.started_at)
    return replace(
        run,
        failures=run.failures + (outcome is Outcome.FAILED),
        faults=run.faults + (outcome is Outcome.LOST),
        preemptions=run.preemptions + (outcome is Outcome.PREEMPTED and not turn),
        turns=run.turns + turn,
        attained_slot_s=run.attained_slot_s + _allocated_slot_s(attempt),
        ran_s=0.0 if retried else ran_s,
        share=_used(run.share, attempt),
        **more,
    )


def turn_is_over(run: Run, attempt: Attempt) -> bool:
    """Whether the end of this attempt is the end of a turn: its time is over, or the run ended in it."""
    if run.spec.mode is not Mode.CYCLE:
        return False
    if attempt.outcome in (Outcome.COMPLETED, Outcome.FAILED):
        return True
    if (
        attempt.outcome not in (Outcome.PREEMPTED, Outcome.PAUSED)
        or attempt.leave_request is not LeaveRequest.PREEMPT
    ):
        return False
    if attempt.allotted_s is None or attempt.leave_requested_at is None:
        return False
    began_at = attempt.started_at or attempt.created_at
    return attempt.leave_requested_at >= began_at + attempt.allotted_s - EPSILON_S


def cycle_report_of(run: Run, attempt: Attempt) -> CycleReport | None:
    """The cycle report of a run after its just ended attempt; None for other runs."""
    if run.spec.mode is not Mode.CYCLE:
        return None
    before = run.cycle_report or CycleReport(turns=0, first_output_s=None, committed=False, resumed=False)
    seen, firsts = attempt.milestones, []
    if before.first_output_s is not None:
        firsts.append(before.first_output_s)
    if seen.first_output_at is not None and attempt.started_at is not None:
        firsts.append(max(0.0, seen.first_output_at - attempt.started_at))
    return CycleReport(
        turns=run.turns + turn_is_over(run, attempt),
        first_output_s=min(firsts, default=None),
        committed=before.committed or seen.checkpoint_at is not None,
        kept=before.kept if seen.kept is None else seen.kept.at > 0.0,
        # A first turn reads an input artifact, not a checkpoint of this run.
        resumed=before.resumed or (before.committed and seen.read_at is not None),
    )


def unproven(run: Run, report: CycleReport | None) -> Cause | None:
    """The missing proof of a completed cycle run; None if it proved everything, and for other runs.

    `run` is its state when its last turn began, `cycle_report` its proof by now.
    """
    before = run.cycle_report
    if report is None or report.proven:
        return None
    missing = "the next turn did not read it"
    if not report.committed:
        missing = "no checkpoint was left"
    elif not report.kept:
        missing = "a checkpoint was left, but none was kept"
    elif run.spec.max_rapid_cycles == 1:
        missing = "with max_rapid_cycles 1 no turn follows that could read the checkpoint"
    elif before is None or not before.committed:
        missing = "no turn followed that could read the checkpoint"
    return Cause(code=CauseCode.UNPROVEN, message=f"completed, pause and resume unproven: {missing}")


def released_slot_s(attempt: Attempt, releases: Iterable[Release]) -> float:
    """The slot-seconds of replicas that ended before their attempt."""
    slots = {
        (placement.role, placement.replica): len(placement.slots)
        for placement in attempt.allocation.placements
    }
    begin = attempt.allocated_at
    if begin is None:
        return 0.0
    return sum(slots[each.role, each.replica] * max(0.0, each.at - begin) for each in releases)


def _allocated_slot_s(attempt: Attempt) -> float:
    """The slot-seconds of an ended attempt, less those of its released replicas, counted before."""
    assert attempt.ended_at is not None, "it has ended"
    begin = attempt.allocated_at
    return 0.0 if begin is None else attempt.current_allocation.slots * max(0.0, attempt.ended_at - begin)


def _used(share: Share | None, attempt: Attempt) -> Share | None:
    """The share after the attempt: its use of this period, from its start until the request to leave."""
    until = attempt.leave_requested_at if attempt.leave_requested_at is not None else attempt.ended_at
    if share is None or until is None:
        return share
    used_s = until - max(block_begins_at(attempt.created_at, attempt.started_at), share.period_at)
    return replace(share, used_s=share.used_s + max(0.0, used_s))


def may_retry(run: Run, attempt: Attempt) -> bool:
    """Whether a run whose attempt failed has a retry left, and a retry may end differently."""
    cause = attempt.cause
    if run.failures >= run.spec.retries or run.spec.mode is Mode.CYCLE or _final_match(attempt) is not None:
        return False
    return (cause is None or cause.code not in _NO_RETRY) and not repeats(run, attempt)


def repeats(run: Run, attempt: Attempt) -> bool:
    """Whether an attempt failed as the previous one did, both within seconds of their start."""
    end = _end(attempt)
    return end is not None and run.retry is not None and run.retry.end == end


def next_try(run: Run, attempt: Attempt, now: float) -> Retry:
    """The time at which the run may start again after this failed or lost attempt."""
    tries = 1 if run.retry is None or _ran_s(attempt) >= LONG_S else run.retry.tries + 1
    end = _end(attempt) if attempt.outcome is Outcome.FAILED else None
    return Retry(at=now + pause_s(tries, attempt.id), tries=tries, end=end)


def doubled_s(first_s: float, times: int, longest_s: float) -> float:
    """A pause that was doubled this often, up to the longest."""
    return min(longest_s, first_s * 2.0 ** min(times, 30))


def pause_s(tries: int, attempt_id: str) -> float:
    """The pause after this number of ends in a row, the last one of this attempt."""
    usual_s = doubled_s(FIRST_S, tries - 1, LONGEST_S)
    number = int.from_bytes(hashlib.sha256(attempt_id.encode()).digest()[:4], "big")
    return usual_s * (1.0 - JITTER + 2.0 * JITTER * number / 2**32)


def excluded_after(run: Run, attempt: Attempt) -> tuple[str, ...]:
    """The nodes that the next attempts avoid, after this failed one."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    nodes = (match.node for match in matches if match.action is LogAction.EXCLUDE_NODE)
    return tuple(dict.fromkeys((*run.excluded_nodes, *nodes)))


def matched_text(attempt: Attempt) -> str:
    """The addition to the cause of an attempt whose logs match a policy."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    return "".join(
        f"; log policy {match.policy!r} found on {match.node}: {match.line.strip()}{_ACTS[match.action]}"
        for match in matches
    )


_ACTS = {
    None: "",
    LogAction.LAST_TRY: " (no retry)",
    LogAction.EXCLUDE_NODE: " (the run keeps away from this node)",
}


def last_try_text(run: Run, attempt: Attempt) -> str:
    """The addition to the cause of a run that is not retried although it has retries left."""
    left = run.spec.retries - run.failures
    if left <= 0 or run.spec.mode is Mode.CYCLE:
        return ""
    retries = "1 retry is" if left == 1 else f"{left} retries are"
    if (match := _final_match(attempt)) is not None:
        return f"; not tried again, by log policy {match.policy!r} ({retries} left)"
    if not repeats(run, attempt):
        return ""
    return (
        f"; it ended alike twice in a row, within {QUICK_S:g} s of starting: not tried again ({retries} left)"
    )


def _final_match(attempt: Attempt) -> LogMatch | None:
    """The match of a log policy that forbids a retry."""
    matches = attempt.cause.log_matches if attempt.cause is not None else ()
    return next((match for match in matches if match.action is LogAction.LAST_TRY), None)


def _end(attempt: Attempt) -> str | None:
    """A short description of an end soon after the start; None for a later end."""
    cause = attempt.cause
    if cause is None or _ran_s(attempt) >= QUICK_S:
        return None
    lines = [_CHANGING.sub("#", line) for line in cause.tail]
    text = repr((cause.code.value, cause.exit_code, cause.signal, cause.role, lines))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _ran_s(attempt: Attempt) -> float:
    """The duration of an ended attempt, from its start or, if it never started, from its grant."""
    assert attempt.ended_at is not None, "it has ended"
    began_at = attempt.created_at if attempt.started_at is None else attempt.started_at
    return max(0.0, attempt.ended_at - began_at)
