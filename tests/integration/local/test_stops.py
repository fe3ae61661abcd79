"""Stops that meet an attempt before it started, whatever was cut short in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine_harness import LocalHarness, Work, ended
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.writing import fence_files, pending_request
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import Outcome
from tarmac.node.files import staging


def staged(local: LocalHarness) -> str:
    """An attempt on two nodes whose runners never come up."""
    local.hang()
    launch = local.launch(Work(output="never"), nodes=2)
    local.engine.submit(local.engine.render(launch))
    return launch.attempt_id


def test_a_stop_takes_the_claims_before_it_returns(local: LocalHarness) -> None:
    attempt = staged(local)
    local.engine.request_leave(attempt, LeaveRequest.STOP)
    for node in ("node1", "node2"):
        assert json.loads(local.engine.read(attempt, f"nodes/{node}/claim")) == {"fenced": True}


def test_news_of_such_a_stop_comes_by_itself(local: LocalHarness) -> None:
    attempt = staged(local)
    told: list[str] = []
    local.engine.subscribe(told.append)
    local.engine.request_leave(attempt, LeaveRequest.STOP)
    local.settle(attempt, lambda seen: ended(seen) and told == [attempt])


@pytest.mark.parametrize("by", ["looking", "submitting again"])
def test_a_stop_cut_short_before_the_claims_is_made_good(local: LocalHarness, by: str) -> None:
    """The server died after writing the ask: the next one must not start the attempt."""
    launch = local.launch(Work(output="never"))
    local.hang()
    local.engine.submit(local.engine.render(launch))
    ask = local.home / "runs" / "run1" / "attempts" / "1" / "ask"
    ask.write_text(json.dumps(pending_request(LeaveRequest.STOP)))
    local.reopen()
    if by == "submitting again":
        local.engine.submit(local.engine.render(launch))
    else:
        local.engine.observe([launch.attempt_id])
    assert json.loads(local.engine.read(launch.attempt_id, "nodes/node1/claim")) == {"fenced": True}
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.STOPPED


def test_a_weaker_ask_never_replaces_a_stronger_one(local: LocalHarness) -> None:
    launch = local.launch(Work(lasts=True, ignores_requests=True), grace_s=0.3)
    local.engine.submit(local.engine.render(launch))
    local.settle(launch.attempt_id, lambda seen: seen.state is ObservedState.RUNNING)
    written = []
    for ask in (LeaveRequest.PAUSE, LeaveRequest.PREEMPT, LeaveRequest.STOP, LeaveRequest.PAUSE):
        local.engine.request_leave(launch.attempt_id, ask)
        written.append(json.loads(local.engine.read(launch.attempt_id, "ask"))["ask"])
    assert written == ["pause", "preempt", "stop", "stop"]


def test_a_disk_that_takes_no_ask_still_lets_the_runner_hear_it(local: LocalHarness) -> None:
    """The caller is told to try again until the ask is down; the workers leave meanwhile."""
    launch = local.launch(Work(lasts=True))
    local.engine.submit(local.engine.render(launch))
    local.settle(launch.attempt_id, lambda seen: seen.state is ObservedState.RUNNING)
    directory = local.home / "runs" / "run1" / "attempts" / "1"
    (directory / "ask").mkdir()  # where the ask would be written
    local.settle(launch.attempt_id, lambda _: (directory / "nodes" / "node1" / "wake").exists())
    with pytest.raises(Unavailable, match="stop"):
        local.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.STOPPED


def test_whoever_makes_a_directory_second_finds_it_there(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    staging.prepare(str(layout.staging))
    directory = layout.attempt("run1.1")
    assert directory is not None
    for request in (LeaveRequest.STOP, None):
        staging.make_directory(str(directory), fence_files("run1.1", request), staging=str(layout.staging))
    assert (directory / "ask").exists()
    assert list(layout.staging.iterdir()) == []
