"""What a pause, a preemption or a failure costs: the work since the last checkpoint, or all of it."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, LeaveRequest
from tarmac.model.loss import loss_of
from tarmac.model.progress import Loss, Milestones, Outcome, SavedWork, loss_text
from tarmac.model.run import Allocation, Attempt


def an_attempt(number: int = 1, **fields: object) -> Attempt:
    """One that ran from 100 to 190 and was then paused."""
    paused = Attempt(
        run_id="r1",
        number=number,
        state=AttemptState.ENDED,
        engine="sim",
        allocation=Allocation(cluster="local", placements=()),
        token="t",
        master_port=20000,
        created_at=99.0,
        started_at=100.0,
        ended_at=191.0,
        leave_request=LeaveRequest.PAUSE,
        leave_requested_at=190.0,
        outcome=Outcome.PAUSED,
    )
    return replace(paused, **fields)


@pytest.mark.parametrize(
    ("milestones", "lost"),
    [
        (Milestones(), Loss(work_s=90.0)),
        (
            Milestones(checkpoint_at=178.0, checkpoint_step=40),
            Loss(work_s=12.0, checkpoint_at=178.0, step=40),
        ),
        (Milestones(checkpoint_at=190.5), Loss(work_s=0.0, checkpoint_at=190.5)),
    ],
    ids=["no checkpoint", "one from before the pause", "one that the pause made"],
)
def test_what_no_checkpoint_of_the_attempt_holds_is_lost(milestones: Milestones, lost: Loss) -> None:
    assert loss_of([an_attempt(milestones=milestones)]) == lost


def test_without_a_checkpoint_of_its_own_an_attempt_loses_all_but_what_was_before_it() -> None:
    first = an_attempt(milestones=Milestones(checkpoint_at=50.0, checkpoint_step=7))
    assert loss_of([first, an_attempt(2)]) == Loss(work_s=90.0, checkpoint_at=50.0, step=7)


def test_an_attempt_that_was_asked_nothing_loses_what_it_did_up_to_its_end() -> None:
    failed = an_attempt(
        leave_request=None,
        leave_requested_at=None,
        outcome=Outcome.FAILED,
        milestones=Milestones(checkpoint_at=181.0),
    )
    assert loss_of([failed]) == Loss(work_s=10.0, checkpoint_at=181.0)


def test_work_ends_with_the_workers_and_not_with_the_last_sync() -> None:
    failed = an_attempt(
        leave_request=None,
        leave_requested_at=None,
        outcome=Outcome.FAILED,
        milestones=Milestones(kept=SavedWork(181.0), over_at=183.0),
    )
    assert loss_of([failed]) == Loss(work_s=2.0, checkpoint_at=181.0)


@pytest.mark.parametrize(
    ("milestones", "restored", "lost"),
    [
        (
            Milestones(checkpoint_at=189.9, checkpoint_step=66, kept=SavedWork(170.0)),
            None,
            Loss(work_s=20.0, checkpoint_at=170.0),
        ),
        (
            Milestones(checkpoint_at=175.0, checkpoint_step=39, kept=SavedWork(150.0, 30)),
            SavedWork(174.5, 40),
            Loss(work_s=15.5, checkpoint_at=174.5, step=40),
        ),
        (Milestones(checkpoint_at=189.0, kept=SavedWork(0.0)), None, Loss(work_s=90.0)),
        (Milestones(checkpoint_at=189.0, kept=SavedWork(189.0)), SavedWork(), Loss(work_s=90.0)),
        (
            Milestones(checkpoint_at=189.0, kept=SavedWork(189.0)),
            SavedWork(60.0),
            Loss(work_s=90.0, checkpoint_at=60.0),
        ),
        (
            Milestones(checkpoint_at=160.0, checkpoint_step=3, kept=SavedWork(189.0, 5)),
            None,
            Loss(work_s=1.0, checkpoint_at=189.0, step=5),
        ),
    ],
    ids=[
        "the newest save was torn",
        "a killed runner had not kept the newest",
        "no version holds one",
        "its successor found none",
        "its successor found an earlier one",
        "the steps are those of the version",
    ],
)
def test_what_is_lost_follows_from_the_version_that_is_restored(
    milestones: Milestones, restored: SavedWork | None, lost: Loss
) -> None:
    """Not from what was seen of later saves: the next attempt does not get them."""
    successor = an_attempt(2, milestones=Milestones(restored=restored))
    assert loss_of([an_attempt(milestones=milestones)], successor) == lost


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": Outcome.COMPLETED},
        {"outcome": Outcome.STOPPED},
        {"started_at": None},
        {"ended_at": None, "outcome": None, "state": AttemptState.RUNNING},
    ],
    ids=["completed", "stopped", "never started", "still there"],
)
def test_where_nothing_is_to_be_done_again_nothing_is_lost(fields: dict[str, object]) -> None:
    assert loss_of([an_attempt(**fields)]) is None
    assert loss_of([]) is None


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ((90.0, None, None), "90 s of work; it has no checkpoint: it will start again at 0"),
        ((600.0, 50.0, 7), "10 min of work since the checkpoint at step 7"),
        ((12.2, 50.0, None), "12 s of work since its last checkpoint"),
        ((0.3, 50.0, 40), "no work: it goes on from the checkpoint at step 40"),
        ((0.0, 50.0, 0), "no work: it goes on from the checkpoint at step 0"),
        (
            (3.0, 50.0, 66, True),
            "at least 3 s of work: it failed soon after it had begun from the checkpoint at step 66; "
            "the next attempt begins from the version before, if there is one",
        ),
    ],
)
def test_it_is_said_in_plain_words(lost: tuple[Any, ...], text: str) -> None:
    assert loss_text(*lost) == text
