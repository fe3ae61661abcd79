"""A program that asks `should_pause()` never dies of the pause signal, and readers of a worker read on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attempts import AttemptDirectory, Warm, python_worker, wait_until, worker, write_attempt

POLLS = """
import sys, tarmac
tarmac.should_pause()
print("ready")
while not tarmac.should_pause():
    pass
with tarmac.checkpoint(7) as directory:
    (directory / "state").write_text("whole")
print("saved")
"""

FOLLOWS = """
import os, sys, time
print("ready")
while not os.path.exists({leave!r}):
    time.sleep(0.01)
print("followed")
"""

LAUNCHES = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
sys.exit(subprocess.Popen([sys.executable, "-u", "-c", sys.argv[1]], start_new_session=True).wait())
"""


@pytest.mark.parametrize("ask", ["pause", "preempt", "time_limit"])
def test_a_worker_that_polls_saves_and_leaves_by_itself(warm: Warm, tmp_path: Path, ask: str) -> None:
    attempt = write_attempt(tmp_path, [python_worker(POLLS)])
    ask_when_ready(warm, attempt, ask)
    attempt.ended()
    assert attempt.wait_for("worker_ended")["exit_code"] == 0
    assert attempt.log().endswith("saved\n")


def test_a_worker_that_polls_below_a_launcher_that_does_not(warm: Warm, tmp_path: Path) -> None:
    """torchrun ends its workers when it is signalled: it is not, as long as one of them polls."""
    launcher = worker("", argv=[sys.executable, "-u", "-c", LAUNCHES, POLLS])
    attempt = write_attempt(tmp_path, [launcher])
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log().endswith("saved\n")


def test_peers_of_a_worker_that_polls_are_left_to_follow_it(warm: Warm, tmp_path: Path) -> None:
    """Rank 0 asks and tells the others by a collective: none of them may be gone by then."""
    leave = tmp_path / "leave"
    polls = POLLS + f"open({str(leave)!r}, 'w')\n"
    follows = python_worker(FOLLOWS.format(leave=str(leave)), replica=1)
    attempt = write_attempt(tmp_path, {"n0": [python_worker(polls)], "n1": [follows]})
    warm.start(attempt, "n1")
    attempt.wait_for_line("ready", log="main.1.0")
    ask_when_ready(warm, attempt, "pause")
    assert [attempt.ended(name)["outcome"] for name in ("n0", "n1")] == ["paused", "paused"]
    assert attempt.log("main.1.0").endswith("followed\n")


def test_a_role_that_does_not_poll_is_signalled_once_those_who_do_have_left(
    warm: Warm, tmp_path: Path
) -> None:
    serves = "trap 'ls \"$CHECKPOINT_ARTIFACT_PATH\"; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    workers = [python_worker(POLLS), worker(serves, role="server")]
    attempt = write_attempt(tmp_path, workers, grace_s=60.0)
    warm.start(attempt)
    attempt.wait_for_line("ready", log="server.0.0")
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    assert "step-7" in attempt.log("server.0.0"), "it was there until the checkpoint was"


def test_a_stop_waits_for_nobody(warm: Warm, tmp_path: Path) -> None:
    busy = POLLS.replace("pass", "continue").replace("not tarmac.should_pause()", "True")
    attempt = write_attempt(tmp_path, [python_worker(busy)], grace_s=60.0)
    ask_when_ready(warm, attempt, "pause")
    attempt.wait_for("asked")
    attempt.ask("stop")
    assert attempt.ended()["outcome"] == "stopped"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGTERM"


def test_one_that_polled_and_is_gone_protects_nobody(warm: Warm, tmp_path: Path) -> None:
    prepare = f"{sys.executable} -c 'import tarmac; tarmac.should_pause()'"
    attempt = write_attempt(tmp_path, [worker(f"{prepare}; echo ready; exec sleep 100")], grace_s=60.0)
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGTERM"


def test_one_that_polls_and_stays_is_ended_after_the_grace(warm: Warm, tmp_path: Path) -> None:
    stays = POLLS.replace("not tarmac.should_pause()", "tarmac.should_pause() or True")
    attempt = write_attempt(tmp_path, [python_worker(stays)], grace_s=0.3)
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGKILL"


@pytest.mark.parametrize("log", ["tee log", "cat >log", "tee >(cat >log) >/dev/null"])
def test_what_reads_from_a_worker_reads_to_the_end(warm: Warm, tmp_path: Path, log: str) -> None:
    """`python train.py | tee log`: the signal is for the training, and what it says after it is not lost."""
    saving = (
        "import signal, sys, time\n"
        "def leave(number, frame):\n"
        "    for step in range(100): print('saving', step)\n"
        "    print('saved', file=sys.stderr)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print('ready')\n"
        "while True: time.sleep(0.01)\n"
    )
    (tmp_path / "train.py").write_text(saving)
    attempt = write_attempt(tmp_path, [worker(f"{sys.executable} -u {tmp_path}/train.py | {log}")])
    warm.start(attempt)
    kept = Path(attempt.node().work) / "log"
    wait_until(lambda: (kept.exists() and kept.read_text()) or None, "the reader has read nothing")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    assert "saved" in attempt.log()
    assert "BrokenPipeError" not in attempt.log()
    assert kept.read_text().endswith("saving 99\n")


def test_a_training_that_reads_from_a_pipe_hears_the_signal_if_it_listens(warm: Warm, tmp_path: Path) -> None:
    listens = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    attempt = write_attempt(tmp_path, [worker(f'yes | bash -c "{listens}"')], grace_s=60.0)
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log().endswith("saved\n")


def test_a_hostile_file_in_place_of_a_poll_file_is_passed_over(warm: Warm, tmp_path: Path) -> None:
    script = 'mkfifo "$TARMAC_POLL_FILE"; echo ready; exec sleep 100'
    attempt = write_attempt(tmp_path, [worker(script)], grace_s=60.0)
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGTERM"


def test_a_shell_worker_may_poll_too(warm: Warm, tmp_path: Path) -> None:
    """A shared lock on the poll file is all there is to it."""
    script = """
exec 9>>"$TARMAC_POLL_FILE"; flock -s 9
echo ready; until [ -e "$TARMAC_PAUSE_FILE" ]; do sleep 0.01; done; echo saved
"""
    attempt = write_attempt(tmp_path, [worker(script)])
    ask_when_ready(warm, attempt, "pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log().endswith("saved\n")


def ask_when_ready(warm: Warm, attempt: AttemptDirectory, ask: str) -> None:
    """Start the first node, wait until its first worker is ready, and ask."""
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask(ask)
