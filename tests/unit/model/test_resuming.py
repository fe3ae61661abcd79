"""Which checkpoint an attempt begins from: the newest, or the one before where an attempt failed with it."""

from __future__ import annotations

import pytest

from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, LeaveRequest
from tarmac.model.loss import loss_of, resumption_after
from tarmac.model.progress import Cause, CauseCode, Loss, Milestones, Outcome, SavedWork
from tarmac.model.run import Allocation, Attempt

OLD, NEW, NEWER = SavedWork(160.0, 6), SavedWork(180.0, 8), SavedWork(480.0, 30)


def an_attempt(number: int, outcome: Outcome = Outcome.FAILED, **fields: object) -> Attempt:
    """One that began at 100 times its number and ran for 90 s; one that failed, for 5 s."""
    ran_s = 5.0 if outcome is Outcome.FAILED else 90.0
    made = Attempt(
        run_id="r1",
        number=number,
        state=AttemptState.ENDED,
        engine="sim",
        allocation=Allocation(cluster="local", placements=()),
        token="t",
        master_port=20000,
        created_at=number * 100.0 - 1.0,
        started_at=number * 100.0,
        ended_at=number * 100.0 + ran_s,
        outcome=outcome,
    )
    return replace(made, **fields)


SAVED = an_attempt(1, Outcome.PREEMPTED, milestones=Milestones(kept=NEW))
REJECTED = an_attempt(2)


def given(number: int, work: SavedWork, outcome: Outcome = Outcome.FAILED, **seen: object) -> Attempt:
    """One whose directory was filled with this."""
    return an_attempt(number, outcome, milestones=replace(Milestones(restored=work), **seen))


@pytest.mark.parametrize(
    ("attempts", "rejected_by"),
    [
        ([], None),
        ([SAVED], None),
        ([SAVED, REJECTED], 2),
        ([SAVED, given(2, NEW)], 2),
        ([SAVED, given(2, NEW, kept=NEW)], 2),
        ([SAVED, REJECTED, given(3, OLD)], 0),
        ([SAVED, REJECTED, given(3, OLD), given(4, NEW)], 4),
        ([SAVED, REJECTED, given(3, OLD), given(4, NEW), given(5, OLD)], 0),
        ([SAVED, REJECTED, given(3, OLD, Outcome.LOST)], 2),
        ([SAVED, REJECTED, given(3, OLD, Outcome.PREEMPTED, kept=OLD)], 2),
        ([SAVED, REJECTED, given(3, OLD, Outcome.PREEMPTED, kept=NEWER)], None),
        ([SAVED, given(2, NEW, kept=NEWER)], None),
        ([an_attempt(1), an_attempt(2)], None),
    ],
    ids=[
        "the first",
        "it was preempted",
        "it failed soon",
        "it failed on another node",
        "it failed and left a log",
        "the one before is no better",
        "they are tried in turns",
        "and again",
        "the one before was not shown to be bad",
        "nor in what it left",
        "the one before was good",
        "it saved before it failed",
        "there was nothing to begin from",
    ],
)
def test_what_an_attempt_failed_with_is_passed_over(attempts: list[Attempt], rejected_by: int | None) -> None:
    """An error in the program neither walks back through all versions nor costs the newest one."""
    assert resumption_after(attempts).rejected_by == rejected_by


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": Outcome.LOST},
        {"outcome": Outcome.PREEMPTED},
        {"ended_at": 200.0 + 600.0},
        {"started_at": None},
        {"cause": Cause(code=CauseCode.SETUP_FAILED, message="m")},
        {"cause": Cause(code=CauseCode.OUT_OF_MEMORY, message="m")},
        {"leave_request": LeaveRequest.PAUSE, "leave_requested_at": 201.0},
    ],
    ids=str,
)
def test_an_end_that_a_checkpoint_cannot_explain_rejects_none(fields: dict[str, object]) -> None:
    assert resumption_after([SAVED, replace(REJECTED, **fields)]).rejected_by is None


def test_a_program_that_reads_its_checkpoint_late_has_failed_soon_after_that() -> None:
    late = replace(REJECTED, ended_at=700.0)
    assert resumption_after([SAVED, late]).rejected_by is None
    assert resumption_after([SAVED, replace(late, milestones=Milestones(read_at=650.0))]).rejected_by == 2
    assert resumption_after([SAVED, replace(late, milestones=Milestones(over_at=250.0))]).rejected_by == 2, (
        "its last sync took long"
    )


def test_what_is_lost_by_an_older_checkpoint_is_counted() -> None:
    """5 s of attempt 2, and 20 s of attempt 1 between the two checkpoints."""
    assert loss_of([SAVED, REJECTED]) == Loss(work_s=5.0, checkpoint_at=180.0, step=8, rejected=True)
    tried = given(3, OLD)
    assert loss_of([SAVED, REJECTED], tried) == Loss(work_s=25.0, checkpoint_at=160.0, step=6)
    assert loss_of([SAVED, REJECTED, tried]) == Loss(work_s=5.0, checkpoint_at=180.0, step=8)
