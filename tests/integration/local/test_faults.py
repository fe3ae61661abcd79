"""Things that die or fail under the local engine: runners, the warm parent, the disk; pids that come back."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine_harness import LocalHarness, Work, ended, running
from tarmac.engines.attempts.supervision import RunnerTimeouts
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.node.attempt import claims
from tarmac.node.kernel import procfs

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def submit(local: LocalHarness, work: Work, **wanted: object) -> str:
    launch = local.launch(work, **wanted)
    local.engine.submit(local.engine.render(launch))
    return launch.attempt_id


def started(local: LocalHarness, work: Work, **wanted: object) -> str:
    attempt = submit(local, work, **wanted)
    local.settle(attempt, running)
    return attempt


def runner_pid(local: LocalHarness, attempt: str, node: str = "node1") -> int:
    return int(json.loads(local.engine.read(attempt, f"nodes/{node}/claim"))["process"]["pid"])


def wait_for_end(pid: int) -> None:
    """Wait until a process that is not our child is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ready, _, _ = select.select([handle], [], [], 120)
    os.close(handle)
    assert ready, f"process {pid} is still there"


def test_a_runner_that_dies_takes_the_attempt_with_it_and_leaves_nothing(local: LocalHarness) -> None:
    escapee = "setsid bash -c 'trap \"\" TERM; echo $BASHPID; exec sleep 3600' & sleep 3600"
    launch = local.launch(Work(), argvs={0: ("bash", "-c", escapee)}, nodes=2)
    attempt = launch.attempt_id
    local.engine.submit(local.engine.render(launch))
    local.settle(attempt, lambda seen: running(seen) and b"\n" in log_of(local, attempt))
    workers = [worker.pid for worker in local.engine.workers(attempt) if worker.pid is not None]
    left_behind = {*workers, *(process.pid for process in claims.find_orphans(launch.token))}
    heartbeat = local.home / "runs/run1/attempts/1/nodes/node1/heartbeat"
    os.utime(heartbeat, (time.time() - 4.0,) * 2)
    alive_at = time.time()
    assert local.settle(attempt, running).state is ObservedState.RUNNING
    os.kill(runner_pid(local, attempt), signal.SIGKILL)
    seen = local.settle(attempt, ended)
    assert seen.outcome is Outcome.LOST
    assert seen.cause is not None
    assert (seen.cause.code, seen.cause.node) == (CauseCode.PLATFORM_FAULT, "node1")
    assert seen.ended_at is not None
    assert seen.ended_at >= alive_at, "the engine has seen its runner live until then"
    for pid in left_behind:
        wait_for_end(pid)


def test_a_runner_that_hangs_is_given_up(local: LocalHarness) -> None:
    attempt = started(local, Work(lasts=True))
    (worker,) = local.engine.workers(attempt)
    os.kill(runner_pid(local, attempt), signal.SIGSTOP)
    local.reopen(patience=RunnerTimeouts(silence_s=0.3))
    seen = local.settle(attempt, ended)
    assert seen.outcome is Outcome.LOST
    assert seen.cause is not None
    assert "no sign of life" in seen.cause.message
    assert worker.pid is not None
    wait_for_end(worker.pid)


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ({"process": {"pid": os.getpid(), "start_ticks": 1}}, CauseCode.PLATFORM_FAULT),
        ({"process": {"pid": 1, "start_ticks": 5}}, CauseCode.PLATFORM_FAULT),
        ({"process": {"pid": os.getpid(), "start_ticks": 1}, "boot_id": "before"}, CauseCode.NODE_LOST),
    ],
    ids=["pid of another", "pid of init", "before a restart"],
)
def test_a_pid_that_was_reused_is_not_the_runner(
    local: LocalHarness, claim: dict[str, object], code: CauseCode
) -> None:
    local.hang()
    attempt = submit(local, Work(lasts=True))
    whole = {"token": "token-of-run1-1", "boot_id": BOOT_ID.read_text().strip()} | claim
    write_claim(local, json.dumps(whole))
    seen = local.settle(attempt, ended)
    assert seen.outcome is Outcome.LOST
    assert seen.cause is not None
    assert seen.cause.code is code


def test_a_claim_nobody_can_read_is_the_platforms_fault(local: LocalHarness) -> None:
    local.hang()
    attempt = submit(local, Work(lasts=True))
    write_claim(local, '{"token": ')
    assert local.settle(attempt, ended).outcome is Outcome.LOST


def warm_parents() -> set[int]:
    """The living processes that this one has started to fork runners."""
    found = set()
    for process in procfs.descendants(os.getpid()):
        known = procfs.status(process.pid)
        if known is not None and known.parent_pid == os.getpid():
            arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            found |= {process.pid} if b"warm" in arguments else set()
    return found


def test_the_death_of_the_warm_parent_harms_nobody(local: LocalHarness) -> None:
    lasting = started(local, Work(lasts=True), run_id="lasting")
    (parent,) = warm_parents()
    os.kill(parent, signal.SIGKILL)
    after = submit(local, Work(), run_id="after")
    assert local.settle(after, ended).outcome is Outcome.COMPLETED
    assert warm_parents().isdisjoint({parent})
    assert warm_parents()
    assert running(local.engine.observe([lasting])[lasting])
    local.engine.request_leave(lasting, LeaveRequest.STOP)
    assert local.settle(lasting, ended).outcome is Outcome.STOPPED


@pytest.mark.parametrize("killed", ["warm parent", "runner"])
def test_of_many_attempts_only_that_of_a_killed_supervisor_is_lost(local: LocalHarness, killed: str) -> None:
    """Of 64 attempts, a killed supervisor costs its own alone, and the engine finds out by itself."""
    attempts = [submit(local, Work(lasts=True), run_id=f"run{number}") for number in range(64)]
    for attempt in attempts:
        local.settle(attempt, running)
    if killed == "runner":
        lost = attempts.pop(17)
        claim = json.loads(local.engine.read(lost, "nodes/node1/claim"))
        os.kill(claim["process"]["pid"], signal.SIGKILL)
        assert local.settle(lost, ended).outcome is Outcome.LOST
    else:
        for parent in warm_parents():
            os.kill(parent, signal.SIGKILL)
    seen = local.engine.observe(attempts)
    assert all(running(seen[attempt]) for attempt in attempts)
    for attempt in attempts:
        local.engine.request_leave(attempt, LeaveRequest.STOP)
    assert {local.settle(attempt, ended).outcome for attempt in attempts} == {Outcome.STOPPED}


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/dev/null"])
def test_a_runner_that_cannot_be_started_is_told_and_tried_again(local: LocalHarness, python: str) -> None:
    local.reopen(python=python)
    launch = local.launch(Work())
    with pytest.raises(Unavailable, match="cannot be started"):
        local.engine.submit(local.engine.render(launch))
    local.reopen()
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED


def test_a_node_whose_runner_never_comes_up_is_given_up_in_the_end(local: LocalHarness) -> None:
    local.hang()
    attempt = submit(local, Work(), nodes=2)
    local.reopen(python="/bin/false", patience=RunnerTimeouts(start_again_s=0.0, starts=3))
    seen = local.settle(attempt, ended)
    assert (seen.outcome, seen.started_at) == (Outcome.LOST, None)
    assert seen.cause is not None
    assert "no runner could be started" in seen.cause.message


def test_one_failing_worker_ends_the_others_and_is_the_cause(local: LocalHarness) -> None:
    fail = ("bash", "-c", "echo diverged; exit 7")
    launch = local.launch(Work(lasts=True), nodes=3, argvs={1: fail})
    local.engine.submit(local.engine.render(launch))
    seen = local.settle(launch.attempt_id, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert (seen.cause.node, seen.cause.replica, seen.cause.exit_code) == ("node2", 1, 7)
    assert seen.cause.tail == ("diverged",)


FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
from engine_harness import LocalHarness, Work, ended
from tarmac.model.errors import Unavailable
home = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(home)], check=True)
local = LocalHarness(home)
filler = home / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
launch = local.launch(Work())
request = local.engine.render(launch)
try:
    local.engine.submit(request)
except Unavailable as error:
    print("refused:", error)
print("left:", [path.name for path in (home / "staging").iterdir()])
print("absent:", local.engine.observe([launch.attempt_id])[launch.attempt_id].state)
filler.unlink()
local.engine.submit(request)
print("then:", local.settle(launch.attempt_id, ended).outcome)
local.close()
"""


def test_a_full_disk_refuses_the_attempt_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    isolated = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*isolated, "mount", "-t", "tmpfs", "none", "/mnt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this kernel gives no private mount namespace, where a full disk could be had")
    support = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [*isolated, sys.executable, "-c", FULL_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(support)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "refused: cannot make the directory of attempt run1.1: No space left on device"
        " (free some space under the tarmac home)",
        "left: []",
        f"absent: {ObservedState.ABSENT}",
        f"then: {Outcome.COMPLETED}",
    ]


def write_claim(local: LocalHarness, text: str) -> None:
    """Claim the first node of the first attempt, as a runner would have."""
    path = local.home / "runs" / "run1" / "attempts" / "1" / "nodes" / "node1" / "claim"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def log_of(local: LocalHarness, attempt: str) -> bytes:
    """What the first worker has written so far."""
    path = local.home / "runs" / "run1" / "attempts" / "1" / "logs" / "main.0.0.log"
    return path.read_bytes() if path.exists() else b""
