"""The runner's words are those of the model, which `node` may not import."""

from __future__ import annotations

from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.progress import PLATFORM_FAULTS, CauseCode, Outcome
from tarmac.node.attempt import words


def test_asks() -> None:
    asked_by_runners_alone = {words.WALL_TIME, words.LEASE_EXPIRED}
    assert set(words.LEAVE_STRENGTH) - asked_by_runners_alone == {ask.value for ask in LeaveRequest}


def test_outcomes() -> None:
    told = {words.COMPLETED, words.FAILED, words.STOPPED, words.PREEMPTED, words.PAUSED, words.LOST}
    assert told == {outcome.value for outcome in Outcome}


def test_causes() -> None:
    told = {
        words.EXIT_CODE,
        words.SIGNAL,
        words.OUT_OF_MEMORY,
        words.COMMAND_NOT_FOUND,
        words.SETUP_FAILED,
        words.CODE_UNREADABLE,
        words.PLATFORM_FAULT,
        words.NODE_LOST,
        words.TIME_LIMIT,
        words.USER_REQUEST,
        words.PREEMPTION,
        words.WALL_TIME,
        words.LEASE_EXPIRED,
    }
    assert told <= {code.value for code in CauseCode}
    assert {code.value for code in PLATFORM_FAULTS} == words.PLATFORM_FAULTS
