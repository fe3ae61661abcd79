"""Every descendant ends with its attempt, whoever dies: workers, runners, the warm parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from attempts import (
    PATIENCE_S,
    AttemptDirectory,
    Warm,
    is_running,
    python_worker,
    wait_for_end,
    wait_until,
    warm_parent,
    worker,
    write_attempt,
)
from tarmac.node.attempt import claims, protocol

DAEMON = """
import os, signal, sys, time
{before}
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", os.getpid())
        os.write(write, b"x")
        while True:
            time.sleep(100)
    os._exit(0)
os.wait()
os.read(read, 1)
print("forked")
{after}
"""
WAIT = "time.sleep(100)"
LEAVE = "sys.exit({code})"


def without_namespaces(unshare: str) -> list[str]:
    """A prefix for commands that can make no process namespace."""
    limit = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"'
    return [unshare, "--user", "--map-root-user", "sh", "-c", limit, "-"]


def daemon_pid(attempt_log: str) -> int:
    return int(next(line for line in attempt_log.splitlines() if line.startswith("daemon")).split()[1])


def test_what_a_worker_left_behind_ends_with_it(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [python_worker(DAEMON.format(before="", after=""))])
    assert warm.run(attempt)["outcome"] == "completed"
    assert claims.find_orphans(attempt.token) == []


@pytest.mark.parametrize("ask", ["stop", "pause"])
def test_double_forked_processes_end_with_what_was_asked(warm: Warm, tmp_path: Path, ask: str) -> None:
    attempt = write_attempt(tmp_path, [python_worker(DAEMON.format(before="", after=WAIT))])
    warm.start(attempt)
    attempt.wait_for_line("forked")
    attempt.ask(ask)
    end = attempt.ended()
    assert claims.find_orphans(attempt.token) == []
    assert end["at"] - attempt.wait_for("asked")["at"] < 2.0, "it has no part in the grace"


def test_double_forked_processes_end_with_a_failing_peer(warm: Warm, tmp_path: Path) -> None:
    fails = worker('while ! grep -q forked "$PEER"; do sleep 0.01; done; exit 7', index=1)
    attempt = write_attempt(tmp_path, [python_worker(DAEMON.format(before="", after=WAIT)), fails])
    told = {**attempt.told}
    told["nodes"][0]["workers"][1]["env"]["PEER"] = attempt.paths.log("main.0.0")
    rewrite(attempt.path / "attempt.json", told)
    end = warm.run(attempt)
    assert end["cause"]["exit_code"] == 7
    assert claims.find_orphans(attempt.token) == []


def test_processes_that_fork_faster_than_one_can_look(warm: Warm, tmp_path: Path) -> None:
    """Thirty processes, each of which replaces itself again and again, in sessions of their own.

    They leave 20 unreaped ones each at most: else a busy machine may run out of process ids.
    """
    storm = """
import os, time
print("ready", flush=True)
def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        before = []
        while True:
            before.append(os.getpid())
            if os.fork() != 0:
                os._exit(0)
            while len(before) > 20 and is_there(before[0]):
                time.sleep(0.001)
            before = before[-20:]
os.wait()
time.sleep(100)
"""
    attempt = write_attempt(tmp_path, [python_worker(storm)], grace_s=0.1)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("stop")
    assert attempt.ended()["outcome"] == "stopped"
    assert claims.find_orphans(attempt.token) == []


def test_an_orphan_that_becomes_one_program_after_another_is_always_found(tmp_path: Path) -> None:
    """In the middle of that a process shows no environment."""
    script = tmp_path / "again.sh"
    script.write_text(f"exec sh {script}\n")
    with subprocess.Popen(["sh", str(script)], env={protocol.TOKEN_VARIABLE: "again"}) as process:
        try:
            assert all(claims.find_orphans("again") for _ in range(200))
        finally:
            process.kill()


def test_where_there_are_no_namespaces_orphans_are_found_by_the_token(tmp_path: Path) -> None:
    """A lost runner takes its workers along; what has left them is found and ended."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([*without_namespaces(unshare), "true"], check=False).returncode != 0:
        pytest.skip("needs `unshare`, and a user namespace, to take process namespaces away")
    with warm_parent(prefix=without_namespaces(unshare)) as warm:
        attempt = write_attempt(tmp_path, [python_worker(DAEMON.format(before="", after=WAIT))])
        runner = warm.start(attempt)
        attempt.wait_for_line("forked")
        lose_the_runner(attempt, runner)


def test_where_there_are_no_namespaces_a_line_that_may_reach_others_is_told(tmp_path: Path) -> None:
    """A7: the line is told before it is carried out; here it never is."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([*without_namespaces(unshare), "true"], check=False).returncode != 0:
        pytest.skip("needs `unshare`, and a user namespace, to take process namespaces away")
    with warm_parent(prefix=without_namespaces(unshare)) as warm:
        attempt = write_attempt(tmp_path, [worker("echo a\ntrue || pkill -f train.py\necho pkills")])
        warm.run(attempt)
    told = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    reaching = [text for text in told if text.startswith("reaches processes of others")]
    assert [text.partition("): ")[2] for text in reaching] == ["true || pkill -f train.py"]


def lose_the_runner(attempt: AttemptDirectory, runner: int) -> None:
    started = attempt.wait_for("worker_started")["pid"]
    claim = claims.read(attempt.node())
    assert claim is not None
    assert claim.process is not None
    assert claim.process.pid == runner
    assert claims.is_alive(claim)
    os.kill(runner, signal.SIGKILL)
    wait_for_end(started)
    wait_for_end(runner)
    assert not claims.is_alive(claim)
    orphan = daemon_pid(attempt.log())
    assert [process.pid for process in claims.find_orphans(attempt.token)] == [orphan]
    assert claims.end_orphans(attempt.token) == 1
    assert not is_running(orphan)
    assert claims.end_orphans(attempt.token) == 0
    assert attempt.kinds()[-1] == "running", "a lost runner says nothing more"


def test_orphans_of_other_attempts_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "100"], env={"TARMAC_ATTEMPT_TOKEN": "abc-and-more"}) as other:
        wait_until(
            lambda: Path(f"/proc/{other.pid}/cmdline").read_bytes().startswith(b"sleep") or None, "no sleep"
        )
        assert claims.end_orphans("abc") == 0
        assert is_running(other.pid)
        other.kill()


def test_a_worker_killed_from_outside(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")])
    warm.start(attempt)
    attempt.wait_for_line("ready")
    os.kill(attempt.wait_for("worker_started")["pid"], signal.SIGKILL)
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["signal"]) == ("failed", "SIGKILL")


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_runners_outlive_the_warm_parent(tmp_path: Path, how: str) -> None:
    attempt = write_attempt(
        tmp_path, [worker("echo ready; while ! [ -e go ]; do sleep 0.01; done; echo done")]
    )
    with warm_parent() as warm:
        warm.start(attempt)
        attempt.wait_for_line("ready")
        if how == "killed":
            warm.process.kill()
            warm.process.wait(PATIENCE_S)
    assert warm.process.returncode == (-signal.SIGKILL if how == "killed" else 0)
    (Path(attempt.node().work) / "go").touch()
    assert attempt.ended()["outcome"] == "completed"
    assert attempt.log() == "ready\ndone\n"


def rewrite(path: Path, told: dict[str, object]) -> None:
    import json

    path.write_text(json.dumps(told))
