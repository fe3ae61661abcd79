"""Asking a live attempt to leave: pause file, signal, grace, SIGKILL; and how its end is then judged."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from attempts import Warm, python_worker, wait_until, worker, write_attempt
from tarmac.node.kernel.fifo import ring

POLITE = """
import sys, tarmac
print("ready")
while not tarmac.should_pause():
    pass
{last}
sys.exit({code})
"""

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 100; done"


@pytest.mark.parametrize(
    ("ask", "outcome", "code"),
    [
        ("pause", "paused", "user_request"),
        ("preempt", "preempted", "preemption"),
        ("stop", "stopped", "user_request"),
        ("time_limit", "failed", "time_limit"),
    ],
)
def test_a_worker_that_leaves_by_the_signal(
    warm: Warm, tmp_path: Path, ask: str, outcome: str, code: str
) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")])
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask(ask)
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["code"]) == (outcome, code)
    assert attempt.wait_for("asked")["ask"] == ask
    assert Path(attempt.node().pause).exists()


@pytest.mark.parametrize(
    ("exit_code", "finished", "outcome"), [(0, False, "paused"), (0, True, "completed"), (4, False, "failed")]
)
def test_without_a_signal_the_pause_file_is_all_there_is(
    warm: Warm, tmp_path: Path, exit_code: int, finished: bool, outcome: str
) -> None:
    source = POLITE.format(last="tarmac.finished()" if finished else "", code=exit_code)
    attempt = write_attempt(tmp_path, [python_worker(source)], pause_signal=None)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == outcome


def test_a_worker_that_ignores_the_signal_is_ended_after_the_grace(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker(STUBBORN)], grace_s=0.4)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    end = attempt.ended()
    waited_s = end["at"] - attempt.wait_for("asked")["at"]
    assert end["outcome"] == "paused"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGKILL"
    assert 0.4 <= waited_s < 2.0


def test_a_stop_after_a_pause_turns_it_into_a_stop(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")], pause_signal=None)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    attempt.wait_for("asked")
    attempt.ask("stop")
    assert attempt.ended()["outcome"] == "stopped"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGTERM"
    assert [event["ask"] for event in attempt.events() if event["kind"] == "asked"] == ["pause", "stop"]


def test_a_weaker_ask_changes_nothing(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker(STUBBORN)], grace_s=0.8)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("stop")
    attempt.wait_for("asked")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "stopped"
    assert attempt.kinds().count("asked") == 1


@pytest.mark.parametrize("fifos", [True, False])
def test_an_ask_is_seen_even_if_nobody_rings(warm: Warm, tmp_path: Path, *, fifos: bool) -> None:
    """Also where there can be no FIFO to ring: the runner looks by itself, as often as it is told."""
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")], look_s=0.1)
    if not fifos:
        attempt.told["settings"]["notify"] = None
        (attempt.path / "attempt.json").write_text(json.dumps(attempt.told))
        Path(attempt.node().wake).mkdir(parents=True)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("stop", wake=False)
    assert attempt.ended()["outcome"] == "stopped"


def test_a_request_through_the_wake_channel_where_a_full_disk_has_no_room(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")], pause_signal=None)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    attempt.wait_for("asked")
    wait_until(lambda: Path(attempt.node().wake).exists() or None, "the runner does not listen")
    ring(attempt.node().wake, b'{"ask": "stop", "at": 0}\n')
    assert attempt.ended()["outcome"] == "stopped"


@pytest.mark.parametrize(("ask", "outcome"), [("stop", "stopped"), ("pause", "paused")])
def test_what_is_asked_before_the_start_never_starts(
    warm: Warm, tmp_path: Path, ask: str, outcome: str
) -> None:
    attempt = write_attempt(tmp_path, [worker("echo started")])
    attempt.ask(ask)
    assert warm.run(attempt)["outcome"] == outcome
    assert "worker_started" not in attempt.kinds()
    assert not Path(attempt.paths.log("main.0.0")).exists()


def test_an_ask_during_setup_ends_the_setup(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path, [worker("echo started")], setup=[["bash", "-c", "echo ready; sleep 100"]]
    )
    warm.start(attempt)
    log = Path(attempt.paths.logs) / "setup.n0.log"
    attempt.wait_for_line("ready", log="setup.n0")
    attempt.ask("stop")
    assert attempt.ended()["outcome"] == "stopped"
    assert "worker_started" not in attempt.kinds()
    assert log.read_text().endswith("sleep 100'\nready\n")


def test_a_shell_that_dies_of_the_signal_does_not_cost_its_child_the_grace(
    warm: Warm, tmp_path: Path
) -> None:
    """A script's bash ends at once; the training it started still saves its checkpoint."""
    saving = "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    attempt = write_attempt(tmp_path, [worker(f'bash -c "{saving}"; echo after')])
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log().endswith("saved\n")


def test_a_launcher_that_reports_the_signal_left_by_it(warm: Warm, tmp_path: Path) -> None:
    """torchrun exits with 1 after SIGTERM, and says which exception made it."""
    launcher = "trap 'echo \"...api.SignalException: Process 7 got signal: 15\"; exit 1' TERM; echo ready; "
    attempt = write_attempt(tmp_path, [worker(launcher + "while :; do sleep 0.05; done")])
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("preempt")
    assert attempt.ended()["outcome"] == "preempted"


def test_a_runner_told_to_leave_takes_its_workers_along_and_blames_the_platform(
    warm: Warm, tmp_path: Path
) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")])
    pid = warm.start(attempt)
    attempt.wait_for_line("ready")
    os.kill(pid, signal.SIGTERM)
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["code"]) == ("lost", "platform_fault")
