"""The outcome of an attempt, as a table: the request to leave, how workers left, what the SDK said."""

from __future__ import annotations

import pytest

from tarmac.engines.attempts.aggregate_outcome import combine
from tarmac.node.attempt import words
from tarmac.node.attempt.document import WorkerLaunch
from tarmac.node.attempt.exit_outcome import (
    Exit,
    ExitOutcome,
    LeaveRequest,
    left_as_requested,
    node_outcome,
)

PAUSED = LeaveRequest("pause", "SIGTERM")
PEER = {"code": "exit_code", "message": "worker main.0.0 on n1 exited with 7", "exit_code": 7}
LOST_PEER = {"code": "platform_fault", "message": "the runner on n1 died"}


def left(code: int | None = 0, signal: str | None = None, **how: object) -> Exit:
    return Exit(WorkerLaunch("main", 0, 0, ()), code, signal, **how)  # type: ignore[arg-type]


def outcome(*exits: Exit, **facts: object) -> tuple[str, str | None]:
    found = node_outcome(exits, node="n0", **facts)  # type: ignore[arg-type]
    return found.outcome, found.cause["code"] if found.cause else None


UNASKED = [
    ([left(0)], ("completed", None)),
    ([left(0), left(0)], ("completed", None)),
    ([], ("completed", None)),
    ([left(3)], ("failed", "exit_code")),
    ([left(0), left(3)], ("failed", "exit_code")),
    ([left(None, "SIGSEGV")], ("failed", "signal")),
    ([left(None, "SIGTERM")], ("failed", "signal")),
    ([left(None, "SIGKILL", memory="")], ("failed", "out_of_memory")),
    ([left(127, fault="'trainn': there is no such command")], ("failed", "command_not_found")),
]


@pytest.mark.parametrize(("exits", "expected"), UNASKED)
def test_not_asked(exits: list[Exit], expected: tuple[str, str | None]) -> None:
    assert outcome(*exits) == expected


LEFT_AS_ASKED = [
    left(0, leave_began=True),
    left(None, "SIGTERM", leave_began=True),
    left(143, leave_began=True),
    left(None, "SIGKILL", leave_began=True, by_runner=True),
    left(1, leave_began=True, by_launcher=True),
]
LEFT_OTHERWISE = [
    (left(1, leave_began=True), "exit_code"),
    (left(None, "SIGSEGV", leave_began=True), "signal"),
    (left(None, "SIGKILL", leave_began=True), "signal"),
    (left(None, "SIGKILL", leave_began=True, memory=""), "out_of_memory"),
]


@pytest.mark.parametrize("item", LEFT_AS_ASKED)
def test_left_as_requested(item: Exit) -> None:
    assert outcome(item, request=PAUSED) == ("paused", "user_request")
    assert outcome(item, request=LeaveRequest("preempt", "SIGTERM")) == ("preempted", "preemption")
    assert outcome(item, request=LeaveRequest("wall_time", "SIGTERM")) == ("preempted", "wall_time")
    assert outcome(item, request=LeaveRequest("stop", "SIGTERM")) == ("stopped", "user_request")
    assert outcome(item, request=LeaveRequest("time_limit", "SIGTERM")) == ("failed", "time_limit")


@pytest.mark.parametrize(("item", "code"), LEFT_OTHERWISE)
def test_left_otherwise(item: Exit, code: str) -> None:
    assert outcome(left(0, leave_began=True), item, request=PAUSED) == ("failed", code)
    assert outcome(item, request=LeaveRequest("preempt", "SIGTERM")) == ("failed", code)
    assert outcome(item, request=LeaveRequest("wall_time", "SIGTERM")) == ("failed", code)
    assert outcome(item, request=LeaveRequest("stop", "SIGTERM")) == ("stopped", "user_request")
    assert outcome(item, request=LeaveRequest("time_limit", "SIGTERM")) == ("failed", "time_limit")


def test_without_a_signal_only_0_and_our_own_sigkill_are_leaving_as_asked() -> None:
    assert left_as_requested(left(0), None)
    assert left_as_requested(left(None, "SIGKILL", by_runner=True), None)
    assert not left_as_requested(left(None, "SIGTERM"), None)
    assert not left_as_requested(left(143), None)


def test_work_that_was_done_before_anything_was_told_is_completed() -> None:
    for ask in words.LEAVE_STRENGTH:
        assert outcome(left(0), left(0), request=LeaveRequest(ask, "SIGTERM")) == ("completed", None)
    assert outcome(left(0), node_leaves=True) == ("completed", None)


def test_an_ask_before_any_worker_ran() -> None:
    assert outcome(request=PAUSED) == ("paused", "user_request")
    assert outcome(request=LeaveRequest("stop", None)) == ("stopped", "user_request")


def test_finished_settles_it() -> None:
    assert outcome(left(0, leave_began=True), request=PAUSED, finished=True) == ("completed", None)
    assert outcome(left(9), finished=True) == ("completed", None)
    assert outcome(left(9), failure_cause=PEER, finished=True) == ("completed", None)


def test_the_failure_that_ended_the_attempt_is_the_cause_everywhere() -> None:
    found = node_outcome([left(None, "SIGTERM", leave_began=True)], node="n0", failure_cause=PEER)
    assert found == ExitOutcome("failed", PEER)
    assert outcome(left(0, leave_began=True), request=PAUSED, failure_cause=PEER) == (
        "failed",
        "exit_code",
    )


def test_what_the_platform_did_is_no_failure_of_the_run() -> None:
    assert outcome(left(None, "SIGTERM", leave_began=True), failure_cause=LOST_PEER) == (
        "lost",
        "platform_fault",
    )
    assert outcome(left(None, "SIGTERM", leave_began=True), node_leaves=True) == ("lost", "platform_fault")


def test_a_failure_that_ends_nobody_says_nothing_about_a_pause() -> None:
    assert outcome(left(5), left(0, leave_began=True), request=PAUSED) == ("paused", "user_request")


def test_the_cause_names_the_worker() -> None:
    found = node_outcome([Exit(WorkerLaunch("eval", 2, 1, ()), None, "SIGSEGV", tail=["a", "b"])], node="n7")
    assert found.cause == {
        "code": "signal",
        "message": "worker eval.2.1 on n7 was ended by SIGSEGV",
        "role": "eval",
        "replica": 2,
        "worker": 1,
        "node": "n7",
        "signal": "SIGSEGV",
        "tail": ["a", "b"],
    }


COMBINED = [
    (["completed", "completed"], "completed"),
    (["completed", "failed"], "failed"),
    (["paused", "failed"], "failed"),
    (["paused", "completed"], "paused"),
    (["preempted", "paused"], "preempted"),
    (["stopped", "paused"], "stopped"),
    (["lost", "stopped"], "lost"),
    (["lost", "failed"], "failed"),
    ([], "completed"),
]


@pytest.mark.parametrize(("outcomes", "expected"), COMBINED)
def test_nodes_together(outcomes: list[str], expected: str) -> None:
    ended = [{"outcome": outcome, "cause": {"code": outcome}} for outcome in outcomes]
    found = combine(ended)
    cause = next((item["cause"] for item in ended if item["outcome"] == expected != "completed"), None)
    assert found == (expected, cause)


def test_finished_on_one_node_settles_it_for_all() -> None:
    ended = [{"outcome": "completed", "finished": True}, {"outcome": "paused", "finished": False}]
    assert combine(ended) == ("completed", None)
