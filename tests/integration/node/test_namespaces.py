"""A process namespace of its own for each node's part of an attempt, where the kernel allows one (A7)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from attempts import (
    Warm,
    cold_runner,
    copy_of_node,
    python_worker,
    wait_for_end,
    wait_until,
    warm_parent,
    worker,
    write_attempt,
)
from tarmac.node.attempt import claims
from tarmac.node.kernel import namespaces, procfs

pytestmark = pytest.mark.skipif(
    namespaces.find_way().by is None, reason="this machine gives no process namespaces"
)

ESCAPED = """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execve(sys.executable, [sys.executable, "-I", "-c", {source!r}], {{}})
    os._exit(0)
os.wait()
time.sleep(100)
"""


def test_a_worker_reaches_no_process_but_its_own(warm: Warm, tmp_path: Path) -> None:
    """What a command for a throw-away container does (`pkill NAME`) does not reach the neighbours.

    Only ever one process of our own is aimed at: were the namespace not there, nobody else may be hit.
    """
    with subprocess.Popen(["sleep", "100"]) as neighbour:
        attempt = write_attempt(tmp_path, [worker(f"kill -9 {neighbour.pid}; echo $?")])
        warm.run(attempt)
        assert neighbour.poll() is None
        neighbour.kill()
    assert "No such process" in attempt.log()


def test_what_a_worker_sees_as_processes_is_the_run(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path, [worker("sleep 90 & echo /proc/[0-9]*; cut -c -6 /proc/1/comm; readlink /proc/self")]
    )
    assert warm.run(attempt)["outcome"] == "completed"
    seen, first, own = attempt.log().splitlines()
    assert len(seen.split()) <= 4
    assert first == "tarmac"
    assert int(own) < 10


def test_a_runner_does_not_listen_to_the_signals_of_its_workers(warm: Warm, tmp_path: Path) -> None:
    script = """
[ "$(cut -c -6 /proc/1/comm)" = tarmac ] || exit 9  # never the first process of the machine
for name in TERM INT HUP CHLD KILL STOP; do kill -s $name 1; done
echo asked
exec sleep 100
"""
    attempt = write_attempt(tmp_path, [worker(script)])
    runner = warm.start(attempt)
    attempt.wait_for_line("asked")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    wait_for_end(runner)
    assert not [event for event in attempt.events() if event["kind"] == "notice"]


def test_a_runner_told_to_leave_from_outside_leaves(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")])
    runner = warm.start(attempt)
    attempt.wait_for_line("ready")
    os.kill(runner, signal.SIGTERM)
    assert attempt.ended()["cause"]["code"] == "platform_fault"


def test_a_process_that_escaped_everything_ends_with_a_killed_runner(warm: Warm, tmp_path: Path) -> None:
    """Twice forked, in a session of its own, without an environment: only the namespace holds it."""
    mark = tmp_path / "alive"
    os.mkfifo(mark)
    source = f"import time; file = open({str(mark)!r}, 'w'); file.write('x'); file.flush(); time.sleep(100)"
    attempt = write_attempt(tmp_path, [python_worker(ESCAPED.format(source=source))])
    runner = warm.start(attempt)
    with mark.open() as held:
        assert held.read(1) == "x"
        assert claims.find_orphans(attempt.token) != []
        os.kill(runner, signal.SIGKILL)
        assert held.read() == "", "whoever held the other end is gone"


def test_pids_told_are_those_of_the_machine(warm: Warm, tmp_path: Path) -> None:
    """What `show` prints is what `ps` and `py-spy` on the node understand."""
    attempt = write_attempt(
        tmp_path, [worker("echo ready; exec sleep 100"), worker("echo ready; exec sleep 101", index=1)]
    )
    runner = warm.start(attempt)
    claim = claims.read(attempt.node()) if attempt.wait_for("running") else None
    for number in range(2):
        attempt.wait_for_line("ready", log=f"main.0.{number}")
    started = [event["pid"] for event in attempt.events() if event["kind"] == "worker_started"]
    told = [wait_until(lambda pid=pid: sleeping(pid), f"no sleep at {pid}") for pid in started]
    assert told == ["100", "101"]
    assert claim is not None
    assert claim.process is not None
    assert claim.process.pid == runner == attempt.wait_for("claimed")["pid"]
    assert {status.parent_pid for pid in started if (status := procfs.status(pid))} == {runner}
    attempt.ask("stop")
    attempt.ended()


def test_what_keeps_artifacts_sees_whoever_writes_on_this_machine(warm: Warm, tmp_path: Path) -> None:
    """Another node may be another runner here, its worker amid a checkpoint on the same disk."""
    with subprocess.Popen(["sleep", "100"]) as neighbour:
        command = ["sh", "-c", f"readlink $TARMAC_MACHINE_PROC/{neighbour.pid}/exe >&2"]
        every_s = dict.fromkeys(("checkpoint", "crud", "lossy", "log"), 1000)
        attempt = write_attempt(
            tmp_path,
            [worker("echo x > $CHECKPOINT_ARTIFACT_PATH/x")],
            sync={"command": command, "every_s": every_s},
        )
        warm.run(attempt)
        neighbour.kill()
    assert Path(attempt.node().sync_log).read_text().strip().endswith("sleep")


def test_a_runner_of_its_own_is_apart_as_well(tmp_path: Path) -> None:
    """Started without a warm parent, as a batch system would: it ends when its node's part does."""
    attempt = write_attempt(tmp_path, [worker("readlink /proc/self")])
    assert cold_runner(attempt) == 0
    assert int(attempt.log()) < 10


def test_a_user_without_rights_is_given_one_too() -> None:
    setpriv, python = shutil.which("setpriv"), "/usr/bin/python3"
    if os.geteuid() != 0 or setpriv is None or not Path(python).exists():
        pytest.skip("needs root and setpriv to become somebody else, and an interpreter for everybody")
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        place = Path(directory)
        place.chmod(0o777)
        package = copy_of_node(place)
        find = f"import sys; sys.path.insert(0, {directory!r}); from tarmac.node.kernel import namespaces"
        asked = [*nobody, python, "-c", f"{find}; print(namespaces.find_way().by)"]
        if subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "None\n":
            pytest.skip("users may make no namespaces here")
        with warm_parent(python, prefix=nobody, package=package) as warm:
            attempt = write_attempt(place, [worker("readlink /proc/self; ls /mnt")], sdk=None)
            for path in (attempt.path, attempt.path / "logs", attempt.path / "news"):
                os.chown(path, 65534, 65534)
            assert warm.run(attempt)["outcome"] == "completed"
        pid, *seen = attempt.log().splitlines()
        assert int(pid) < 10
        assert "crud" in seen


def sleeping(pid: int) -> str | None:
    """How long the `sleep` with this pid sleeps; None if it is not one (yet)."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[1].decode() if words[0] == b"sleep" else None
