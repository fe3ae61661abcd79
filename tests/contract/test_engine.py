"""What every engine promises (model/ports.py), held against the simulated and the local one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine_harness import LOG, Harness, SimHarness, Work, ended, started, submit
from tarmac.model.abilities import ReadsReports
from tarmac.model.errors import NotFound
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import CauseCode, Outcome

# --- starting and ending ------------------------------------------------------------------------------


def test_an_attempt_that_exits_0_is_completed(harness: Harness) -> None:
    attempt = submit(harness, Work())
    seen = harness.settle(attempt, ended)
    assert (seen.outcome, seen.cause) == (Outcome.COMPLETED, None)
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert seen.started_at <= seen.ended_at


def test_after_submit_an_attempt_is_never_absent(harness: Harness) -> None:
    attempt = submit(harness, Work(lasts=True))
    assert harness.engine.observe([attempt])[attempt].state is not ObservedState.ABSENT


def test_submitting_again_starts_nothing_twice(harness: Harness) -> None:
    launch = harness.launch(Work(output="once\n"))
    request = harness.engine.render(launch)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(harness.engine.submit, [request] * 4))
    first = harness.settle(launch.attempt_id, ended)
    harness.engine.submit(request)
    assert harness.engine.observe([launch.attempt_id])[launch.attempt_id] == first
    assert harness.engine.read(launch.attempt_id, LOG) == b"once\n"


def test_a_failing_worker_is_named_with_its_exit_code_and_last_lines(harness: Harness) -> None:
    attempt = submit(harness, Work(output="epoch 1\nout of luck\n", exit_code=7))
    seen = harness.settle(attempt, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert seen.cause.code is CauseCode.EXIT_CODE
    assert (seen.cause.exit_code, seen.cause.signal) == (7, None)
    assert (seen.cause.role, seen.cause.replica, seen.cause.worker) == ("main", 0, 0)
    assert seen.cause.node == "node1"
    assert seen.cause.tail[-1] == "out of luck"


def test_a_worker_ended_by_a_signal_is_named_with_it(harness: Harness) -> None:
    attempt = submit(harness, Work(signal="SIGSEGV"))
    cause = harness.settle(attempt, ended).cause
    assert cause is not None
    assert (cause.code, cause.signal, cause.exit_code) == (CauseCode.SIGNAL, "SIGSEGV", None)


def test_a_time_limit_ends_an_attempt(harness: Harness) -> None:
    attempt = submit(harness, Work(lasts=True), time_limit_s=0.2)
    seen = harness.settle(attempt, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert seen.cause.code is CauseCode.TIME_LIMIT


def test_attempts_of_one_run_are_apart(harness: Harness) -> None:
    first = submit(harness, Work(output="first"))
    harness.settle(first, ended)
    second = submit(harness, Work(output="second"), number=2)
    harness.settle(second, ended)
    assert harness.engine.read(first, LOG) == b"first"
    assert harness.engine.read(second, LOG) == b"second"


# --- asking -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "outcome", "code"),
    [
        (LeaveRequest.PAUSE, Outcome.PAUSED, CauseCode.USER_REQUEST),
        (LeaveRequest.PREEMPT, Outcome.PREEMPTED, CauseCode.PREEMPTION),
        (LeaveRequest.STOP, Outcome.STOPPED, CauseCode.USER_REQUEST),
        (LeaveRequest.TIME_LIMIT, Outcome.FAILED, CauseCode.TIME_LIMIT),
    ],
)
def test_a_running_attempt_leaves_as_asked(
    harness: Harness, ask: LeaveRequest, outcome: Outcome, code: CauseCode
) -> None:
    attempt = started(harness, Work(lasts=True))
    harness.engine.request_leave(attempt, ask)
    harness.engine.request_leave(attempt, ask)
    seen = harness.settle(attempt, ended)
    assert seen.outcome is outcome
    assert seen.cause is not None
    assert seen.cause.code is code


def test_one_that_does_not_listen_is_ended_after_its_grace(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True, ignores_requests=True), grace_s=0.2)
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert harness.settle(attempt, ended).outcome is Outcome.PAUSED


def test_a_stop_after_a_pause_is_honoured(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True, ignores_requests=True), grace_s=1.0)
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert harness.settle(attempt, ended).outcome is Outcome.STOPPED


def test_a_stop_at_once_waits_for_no_grace_also_after_a_stop(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True, ignores_requests=True), grace_s=3600.0)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    harness.engine.request_leave(attempt, LeaveRequest.STOP_NOW)
    seen = harness.settle(attempt, ended)
    assert (seen.outcome, seen.cause and seen.cause.code) == (Outcome.STOPPED, CauseCode.USER_REQUEST)


def test_a_pause_after_a_stop_changes_nothing(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True, ignores_requests=True), grace_s=1.0)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert harness.settle(attempt, ended).outcome is Outcome.STOPPED


def test_a_pause_after_a_preemption_keeps_the_run_paused(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True, ignores_requests=True), grace_s=1.0)
    harness.engine.request_leave(attempt, LeaveRequest.PREEMPT)
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert harness.settle(attempt, ended).outcome is Outcome.PAUSED


def test_asking_one_that_has_ended_changes_nothing(harness: Harness) -> None:
    attempt = submit(harness, Work())
    seen = harness.settle(attempt, ended)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert harness.engine.observe([attempt])[attempt] == seen


def test_a_stop_before_the_start_means_that_it_never_starts(harness: Harness) -> None:
    harness.hang()
    launch = harness.launch(Work(output="never"), nodes=2)
    request = harness.engine.render(launch)
    harness.engine.submit(request)
    assert harness.engine.observe([launch.attempt_id])[launch.attempt_id].state is ObservedState.STARTING
    harness.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    seen = harness.settle(launch.attempt_id, ended)
    assert (seen.outcome, seen.started_at) == (Outcome.STOPPED, None)
    assert seen.cause is not None
    assert seen.cause.code is CauseCode.USER_REQUEST
    harness.engine.submit(request)
    assert harness.engine.observe([launch.attempt_id])[launch.attempt_id] == seen


def test_a_stop_before_the_submission_means_that_it_never_starts(harness: Harness) -> None:
    launch = harness.launch(Work(output="never"))
    harness.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    harness.engine.submit(harness.engine.render(launch))
    seen = harness.settle(launch.attempt_id, ended)
    assert (seen.outcome, seen.started_at) == (Outcome.STOPPED, None)
    with pytest.raises(NotFound):
        harness.engine.read(launch.attempt_id, LOG)


def test_a_pause_before_the_submission_is_nothing(harness: Harness) -> None:
    launch = harness.launch(Work())
    harness.engine.request_leave(launch.attempt_id, LeaveRequest.PAUSE)
    assert harness.engine.observe([launch.attempt_id])[launch.attempt_id].state is ObservedState.ABSENT
    harness.engine.submit(harness.engine.render(launch))
    assert harness.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED


# --- milestones -----------------------------------------------------------------------------------------


def test_what_nodes_see_of_an_attempt_is_told_while_it_runs_and_after(harness: Harness) -> None:
    """I11: a first output at once, a whole checkpoint, and that the next attempt read it."""
    first = started(harness, Work(output="hello\n", saves=True, lasts=True))
    seen = harness.settle(first, lambda seen: seen.milestones.first_output_at is not None)
    assert seen.state is ObservedState.RUNNING
    assert seen.milestones.read_at is None
    harness.engine.request_leave(first, LeaveRequest.PREEMPT)
    seen = harness.settle(first, ended)
    assert seen.ended_at is not None
    assert seen.milestones.checkpoint_at is not None
    assert seen.started_at is not None
    assert seen.started_at <= seen.milestones.checkpoint_at <= seen.ended_at
    assert seen.milestones.read_at is None
    second = submit(harness, Work(output="hello again\n", saves=True), number=2)
    assert harness.settle(second, ended).milestones.read_at is not None


def test_an_attempt_that_saves_and_reads_nothing_has_no_such_milestones(harness: Harness) -> None:
    for number in (1, 2):
        attempt = submit(harness, Work(output="hello\n"), number=number)
        milestones = harness.settle(attempt, ended).milestones
        assert milestones.first_output_at is not None
        assert (milestones.checkpoint_at, milestones.read_at) == (None, None)


# --- several nodes ------------------------------------------------------------------------------------


def test_an_attempt_on_two_nodes_runs_and_ends_as_one(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True), nodes=2)
    assert [worker.node for worker in harness.engine.workers(attempt)] == ["node1", "node2"]
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert harness.settle(attempt, ended).outcome is Outcome.STOPPED
    assert all(worker.ended_at is not None for worker in harness.engine.workers(attempt))


# --- looking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", ["nobody.1", "", ".", "..", "../../etc.1", "a/b.1", "run1", "run1.x"])
def test_an_unknown_attempt_is_absent_and_never_an_error(harness: Harness, attempt: str) -> None:
    assert harness.engine.observe([attempt]) == {attempt: Observation(state=ObservedState.ABSENT)}
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert list(harness.engine.workers(attempt)) == []
    assert list(harness.engine.notices(attempt)) == []
    with pytest.raises(NotFound):
        harness.engine.read(attempt, LOG)


def test_observing_in_bulk_tells_each_apart(harness: Harness) -> None:
    done = submit(harness, Work(), run_id="done")
    harness.settle(done, ended)
    failed = submit(harness, Work(exit_code=3), run_id="failed")
    harness.settle(failed, ended)
    lasting = started(harness, Work(lasts=True), run_id="lasting")
    seen = harness.engine.observe([lasting, done, "nobody.1", failed])
    assert {attempt: (each.state, each.outcome) for attempt, each in seen.items()} == {
        lasting: (ObservedState.RUNNING, None),
        done: (ObservedState.ENDED, Outcome.COMPLETED),
        failed: (ObservedState.ENDED, Outcome.FAILED),
        "nobody.1": (ObservedState.ABSENT, None),
    }
    assert harness.engine.observe([]) == {}


def test_workers_are_told_with_how_they_left(harness: Harness) -> None:
    attempt = submit(harness, Work(exit_code=5))
    harness.settle(attempt, ended)
    (worker,) = harness.engine.workers(attempt)
    assert (worker.role, worker.replica, worker.index, worker.node) == ("main", 0, 0, "node1")
    assert (worker.log, worker.exit_code, worker.signal) == (LOG, 5, None)
    assert worker.started_at is not None
    assert worker.ended_at is not None


def test_what_a_node_tells_is_known_while_the_attempt_runs_and_after(harness: Harness) -> None:
    attempt = started(harness, Work(misses="/data/none", lasts=True), nodes=2, rehearsal=True)

    def told() -> list[tuple[str, bool]]:
        return [(notice.node, "/data/none" in notice.text) for notice in harness.engine.notices(attempt)]

    assert told() == [("node1", True)]
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    harness.settle(attempt, ended)
    assert told() == [("node1", True)]
    silent = submit(harness, Work(), number=2)
    harness.settle(silent, ended)
    assert list(harness.engine.notices(silent)) == []


def test_a_bind_without_its_source_ends_the_attempt_before_its_workers(harness: Harness) -> None:
    if isinstance(harness, SimHarness):
        pytest.skip("simulated nodes have no disk")
    attempt = submit(harness, Work(misses="/data/none", output="began"))
    seen = harness.settle(attempt, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert (seen.cause.code, seen.cause.node) == (CauseCode.SETUP_FAILED, "node1")
    assert seen.cause.message == (
        "cannot bind /no/such/source to /data/none on node1: no such file or directory"
    )
    assert seen.started_at is None


def test_what_the_workers_of_a_live_attempt_use_is_measured(harness: Harness) -> None:
    if isinstance(harness, SimHarness):
        pytest.skip("simulated workers use nothing")
    measuring = harness.engine
    assert isinstance(measuring, ReadsReports)
    assert measuring.utilization(["nobody.1"]) == {}
    attempt = started(harness, Work(lasts=True))
    harness.settle(attempt, lambda _seen: bool(measuring.utilization([attempt])))
    ((used,),) = measuring.utilization(["nobody.1", attempt]).values()
    assert used.node == "node1"
    assert used.memory_bytes > 0
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    harness.settle(attempt, ended)
    assert measuring.utilization([attempt]) == {}


def test_a_log_is_read_in_pieces(harness: Harness) -> None:
    attempt = submit(harness, Work(output="0123456789"))
    harness.settle(attempt, ended)
    read = harness.engine.read
    assert read(attempt, LOG) == b"0123456789"
    assert read(attempt, LOG, offset=3, limit=4) == b"3456"
    assert read(attempt, LOG, offset=8, limit=100) == b"89"
    assert read(attempt, LOG, offset=10) == b""
    assert read(attempt, LOG, offset=11) == b""
    assert read(attempt, LOG, limit=0) == b""


@pytest.mark.parametrize(
    "path",
    ["logs/none.log", "", ".", "logs", "/etc/passwd", "../1/attempt.json", "logs/../attempt.json", "logs/\0"],
)
def test_what_is_no_file_of_the_attempt_is_not_found(harness: Harness, path: str) -> None:
    attempt = submit(harness, Work())
    harness.settle(attempt, ended)
    with pytest.raises(NotFound):
        harness.engine.read(attempt, path)


# --- requests -----------------------------------------------------------------------------------------


def test_rendering_is_pure_and_prints_no_secret(harness: Harness) -> None:
    launch = harness.launch(Work(), nodes=2)
    request = harness.engine.render(launch)
    assert request == harness.engine.render(launch)
    assert request.attempt_id == launch.attempt_id
    assert harness.engine.observe([launch.attempt_id])[launch.attempt_id].state is ObservedState.ABSENT
    assert "node2" in str(request)
    assert launch.token not in str(request)
    assert str(request) == str(harness.engine.render(launch))
