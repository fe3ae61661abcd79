"""Updates a run's counts at the end of an attempt: failures, faults, preemptions, turns, time.

Each count is separate: only failures use up retries, only turns those of a cycle run. Pure; called by
`apply_observation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarmac.model.leaving import LeaveRequest
from tarmac.model.mode import Mode
from tarmac.model.record import replace
from tarmac.model.run import (
    Attempt,
    Cause,
    CauseCode,
    CycleReport,
    Outcome,
    Release,
    Run,
    Share,
    block_begins_at,
)

EPSILON_S = 1e-6
"""The tolerance for sums of times."""

GONE_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.LOST})
"""Outcomes of an attempt after which the run continues from its last point, with the same time limit."""


def counted(run: Run, attempt: Attempt, *, retried: bool, **more: Any) -> Run:
    """The run with the counts of its ended attempt added, and with these fields changed.

    A retried run restarts its time limit.
    """
    outcome, turn = attempt.outcome, turn_is_over(run, attempt)
    ran_s = run.ran_s + _running_s(attempt) if outcome in GONE_ON else run.ran_s
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


def _running_s(attempt: Attempt) -> float:
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    return max(0.0, attempt.ended_at - attempt.started_at)


def _used(share: Share | None, attempt: Attempt) -> Share | None:
    """The share after the attempt: its use of this period, from its start until the request to leave."""
    until = attempt.leave_requested_at if attempt.leave_requested_at is not None else attempt.ended_at
    if share is None or until is None:
        return share
    used_s = until - max(block_begins_at(attempt.created_at, attempt.started_at), share.period_at)
    return replace(share, used_s=share.used_s + max(0.0, used_s))
