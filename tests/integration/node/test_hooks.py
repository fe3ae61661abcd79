"""A run's own commands around its workers: once, on the first node, before any worker and after all (K6)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from attempts import Warm, wait_until, worker, write_attempt


def said(place: Path, word: str) -> list[str]:
    """A command that appends a word to the file all nodes share."""
    return ["bash", "-c", f"echo {word} >> {place}"]


def hooks(place: Path, **changed: Any) -> dict[str, Any]:
    names = ("before_login", "before", "after", "after_login")
    return {"setup_env": {"PATH": os.environ["PATH"]}} | {
        "hooks": {name: [said(place, name)] for name in names} | changed
    }


def test_each_hook_runs_once_around_the_workers_of_all_nodes(warm: Warm, tmp_path: Path) -> None:
    """K6: before_login, before, the workers of every node, after, after_login."""
    place = tmp_path / "order"
    attempt = write_attempt(
        tmp_path,
        {name: [worker(f"echo worker >> {place}")] for name in ("n0", "n1", "n2")},
        **hooks(place),
    )
    assert warm.run(attempt)["outcome"] == "completed"
    assert place.read_text().split() == [
        *("before_login", "before"),
        *("worker", "worker", "worker"),
        *("after", "after_login"),
    ]
    assert (
        attempt.log("setup.n0").splitlines()[0] == f"+ before_login: bash -c 'echo before_login >> {place}'"
    )
    assert not Path(attempt.paths.log("setup.n1")).exists()


def test_a_node_without_workers_takes_its_part(warm: Warm, tmp_path: Path) -> None:
    """K6: what a batch job has beside its first node."""
    place = tmp_path / "order"
    attempt = write_attempt(tmp_path, {"n0": [worker(f"echo worker >> {place}")], "n1": []}, **hooks(place))
    assert warm.run(attempt)["outcome"] == "completed"
    assert place.read_text().split() == ["before_login", "before", "worker", "after", "after_login"]


@pytest.mark.parametrize("name", ["before_login", "before"])
def test_a_failure_before_ends_the_attempt_on_every_node(warm: Warm, tmp_path: Path, name: str) -> None:
    """K6: no worker starts, and nothing runs after."""
    place = tmp_path / "order"
    failing = {name: [["bash", "-c", "echo said; exit 3"], said(place, "second")]}
    attempt = write_attempt(
        tmp_path,
        {node: [worker(f"echo worker >> {place}")] for node in ("n0", "n1")},
        **hooks(place, **failing),
    )
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"], end["cause"]["exit_code"]) == ("failed", "setup_failed", 3)
    assert end["cause"]["message"] == f"command 1 of the hook {name} on n0 failed: exited with 3"
    assert end["cause"]["tail"][-1] == "said"
    assert attempt.ended("n1")["outcome"] == "failed"
    assert "worker" not in place.read_text().split() if place.exists() else True


def test_a_command_that_is_not_there_is_a_failure(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path, [worker("true")], **hooks(tmp_path / "order", before=[["no-such-command"]])
    )
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["exit_code"]) == ("failed", 127)
    assert "no-such-command" in attempt.log("setup.n0")


@pytest.mark.parametrize("failing", ["n0", "n1"])
def test_commands_after_run_when_a_worker_fails(warm: Warm, tmp_path: Path, failing: str) -> None:
    """K6: cleaning up is what they are for; the worker's failure stays the cause."""
    place = tmp_path / "order"
    workers = {name: [worker("exit 4" if name == failing else "sleep 60")] for name in ("n0", "n1")}
    attempt = write_attempt(tmp_path, workers, **hooks(place, after_login=[["bash", "-c", "exit 5"]]))
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["exit_code"], end["cause"]["node"]) == ("failed", 4, failing)
    assert place.read_text().split() == ["before_login", "before", "after"]
    notices = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    assert "command 1 of the hook after_login on n0 failed: exited with 5" in notices


def test_a_failure_after_counts_where_nothing_failed_before(warm: Warm, tmp_path: Path) -> None:
    """K6."""
    place = tmp_path / "order"
    attempt = write_attempt(tmp_path, [worker("true")], **hooks(place, after=[["bash", "-c", "exit 5"]]))
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"], end["cause"]["exit_code"]) == ("failed", "exit_code", 5)
    assert place.read_text().split() == ["before_login", "before"]


@pytest.mark.parametrize(("ask", "outcome"), [("stop", "stopped"), ("pause", "paused")])
def test_a_command_before_gives_way_to_an_ask(warm: Warm, tmp_path: Path, ask: str, outcome: str) -> None:
    """K6: it is ended, and nothing runs after it."""
    place = tmp_path / "order"
    sleeping = ["bash", "-c", f"echo sleeping >> {place}; sleep 60"]
    attempt = write_attempt(
        tmp_path,
        {name: [worker(f"echo worker >> {place}")] for name in ("n0", "n1")},
        **hooks(place, before=[sleeping]),
    )
    for name in attempt.nodes:
        warm.start(attempt, name)
    wait_until(lambda: "sleeping" in place.read_text() or None if place.exists() else None, "it never slept")
    attempt.ask(ask)
    assert [attempt.ended(name)["outcome"] for name in attempt.nodes] == [outcome, outcome]
    assert place.read_text().split() == ["before_login", "sleeping"]


def test_a_run_that_is_asked_to_leave_runs_no_command_after(warm: Warm, tmp_path: Path) -> None:
    """K6: a paused run goes on later; its last attempt is the one that cleans up."""
    place = tmp_path / "order"
    attempt = write_attempt(tmp_path, [worker("echo up; sleep 60")], **hooks(place))
    warm.start(attempt)
    attempt.wait_for_line("up")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    assert place.read_text().split() == ["before_login", "before"]


@pytest.mark.parametrize(
    ("ask", "grace_s", "whole"), [("stop", 10.0, False), ("pause", 0.0, False), ("pause", 10.0, True)]
)
def test_a_command_after_is_ended_by_a_stop_and_left_its_grace_by_a_pause(
    warm: Warm, tmp_path: Path, ask: str, grace_s: float, whole: bool
) -> None:
    """K6: the work is done by then."""
    place, gate = tmp_path / "order", tmp_path / "gate"
    os.mkfifo(gate)
    waiting = ["bash", "-c", f"echo waiting >> {place}; read line < {gate}"]
    attempt = write_attempt(tmp_path, [worker("true")], grace_s=grace_s, **hooks(place, after=[waiting]))
    warm.start(attempt)
    wait_until(lambda: "waiting" in place.read_text() or None if place.exists() else None, "it never waited")
    attempt.ask(ask)
    if whole:
        gate.write_text("go\n")
    assert attempt.ended()["outcome"] == "completed"
    assert ("after_login" in place.read_text()) == whole
    notices = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    told = f"command 1 of the hook after was ended: the run was asked to {ask}"
    assert (told in notices) == (not whole)


def test_a_lost_node_is_not_waited_for(warm: Warm, tmp_path: Path) -> None:
    """K6: the attempt is tried again by itself, so nothing is cleaned up yet."""
    place = tmp_path / "order"
    attempt = write_attempt(tmp_path, {"n0": [worker("true")], "n1": []}, **hooks(place))
    warm.start(attempt)
    attempt.wait_for("worker_ended")
    lost = {"node": "n1", "cause": {"code": "node_lost", "message": "gone"}, "at": 1.0}
    (attempt.path / "failed").write_text(json.dumps(lost))
    attempt.ended()
    assert place.read_text().split() == ["before_login", "before"]


def test_a_failure_after_does_not_hide_that_of_a_worker_that_ends_no_others(
    warm: Warm, tmp_path: Path
) -> None:
    """K6: the first failure is the cause."""
    workers = [worker("exit 4", stop_on_failure=False), worker("true", index=1)]
    attempt = write_attempt(tmp_path, workers, **hooks(tmp_path / "order", after=[["bash", "-c", "exit 5"]]))
    assert warm.run(attempt)["cause"]["exit_code"] == 4


def test_what_is_kept_counts_from_the_end_of_the_workers_however_long_commands_after_take(
    warm: Warm, tmp_path: Path
) -> None:
    """I14: where nobody saw who closed what, the time since then tells what may be half a file."""
    after, heard = tmp_path / "after", tmp_path / "heard"
    attempt = write_attempt(
        tmp_path,
        [worker("touch $CHECKPOINT_ARTIFACT_PATH/half; exit 4")],
        sync={"command": ["bash", "-c", f"head -n 1 > {heard}"], "every_s": {}},
        **hooks(tmp_path / "order", after=[["bash", "-c", f"date +%s.%N > {after}"]]),
    )
    assert warm.run(attempt)["outcome"] == "failed"
    assert json.loads(heard.read_text())["end"]["at"] < float(after.read_text())
