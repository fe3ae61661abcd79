"""The server goes and comes back: whatever was started is adopted, nothing starts twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine_harness import LocalHarness, Work, ended, running
from tarmac.engines.local.engine import LocalEngine
from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome

LOG = "logs/main.0.0.log"


def submit(local: LocalHarness, work: Work, **wanted: object) -> str:
    launch = local.launch(work, **wanted)
    local.engine.submit(local.engine.render(launch))
    return launch.attempt_id


def test_what_runs_is_adopted_and_still_listens(local: LocalHarness) -> None:
    attempt = submit(local, Work(lasts=True), nodes=2)
    before = local.settle(attempt, running)
    local.reopen()
    after = local.engine.observe([attempt])[attempt]
    assert replace(after, milestones=before.milestones) == before  # its first output may have been seen since
    local.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert local.settle(attempt, ended).outcome is Outcome.PAUSED


def test_what_ended_meanwhile_is_told_with_its_cause(local: LocalHarness) -> None:
    attempt = submit(local, Work(exit_code=4))
    before = local.settle(attempt, ended)
    local.reopen()
    assert local.engine.observe([attempt])[attempt] == before
    (worker,) = local.engine.workers(attempt)
    assert worker.exit_code == 4


def test_what_was_staged_but_never_started_is_started_by_the_next_server(local: LocalHarness) -> None:
    """The crash between the directory and the runner: no second submission is needed."""
    local.hang()
    launch = local.launch(Work(output="once"))
    local.engine.submit(local.engine.render(launch))
    local.reopen()
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert local.engine.read(launch.attempt_id, LOG) == b"once"


def test_a_second_submission_by_the_next_server_starts_nothing(local: LocalHarness) -> None:
    launch = local.launch(Work(lasts=True))
    local.engine.submit(local.engine.render(launch))
    local.settle(launch.attempt_id, running)
    local.reopen()
    local.engine.submit(local.engine.render(launch))
    local.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    local.settle(launch.attempt_id, ended)
    claims = [line for line in events(local, launch.attempt_id) if line["kind"] == "claimed"]
    assert len(claims) == 1
    assert local.engine.read(launch.attempt_id, LOG) == b"working\n"


def test_a_directory_left_half_staged_is_in_nobodys_way(local: LocalHarness) -> None:
    staging = local.home / "staging"
    for name in ("run1.1", "other.3"):
        (staging / name / "nodes").mkdir(parents=True)
        (staging / name / "attempt.json").write_text('{"protocol": 1, "atte')
    attempt = submit(local, Work())
    assert local.settle(attempt, ended).outcome is Outcome.COMPLETED
    local.reopen()
    assert list(staging.iterdir()) == []
    assert local.engine.observe(["other.3"])["other.3"].state is ObservedState.ABSENT


@pytest.mark.parametrize("damage", ["", '{"protocol": 1, "atte', "[]", "{}", None])
def test_a_description_lost_by_the_disk_is_the_platforms_fault(
    local: LocalHarness, damage: str | None
) -> None:
    directory = local.home / "runs" / "run1" / "attempts" / "1"
    directory.mkdir(parents=True)
    if damage is not None:
        (directory / "attempt.json").write_text(damage)
    seen = local.engine.observe(["run1.1"])["run1.1"]
    assert (seen.state, seen.outcome) == (ObservedState.ENDED, Outcome.LOST)
    assert seen.cause is not None
    assert seen.cause.code is CauseCode.PLATFORM_FAULT
    local.engine.request_leave("run1.1", LeaveRequest.STOP)
    local.engine.reap("run1.1")
    assert list(local.engine.workers("run1.1")) == []


def test_artifacts_are_found_again_by_the_next_attempt(local: LocalHarness) -> None:
    write = ("bash", "-c", 'echo step 12 > "$CHECKPOINT_ARTIFACT_PATH/last"')
    first = local.launch(Work(), argvs={0: write})
    local.engine.submit(local.engine.render(first))
    local.settle(first.attempt_id, ended)
    read = ("bash", "-c", 'cat "$CHECKPOINT_ARTIFACT_PATH/last"')
    second = local.launch(Work(), number=2, argvs={0: read})
    local.engine.submit(local.engine.render(second))
    local.settle(second.attempt_id, ended)
    assert local.engine.read(second.attempt_id, LOG) == b"step 12\n"


def test_a_closed_engine_starts_nothing(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path / "home")
    harness.engine.close()
    harness.engine.close()
    assert isinstance(harness.engine, LocalEngine)
    launch = harness.launch(Work())
    with pytest.raises(Exception, match="closed"):
        harness.engine.submit(harness.engine.render(launch))


def events(local: LocalHarness, attempt: str) -> list[dict[str, object]]:
    text = local.engine.read(attempt, "nodes/node1/events.jsonl").decode()
    return [json.loads(line) for line in text.splitlines()]
