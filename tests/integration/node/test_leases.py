"""The lease of an attempt on a node that can be cut off: who has lost the server ends its work by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import (
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
from tarmac.node.host import operations
from tarmac.node.kernel.fifo import ring
from tarmac.node.processes import lease

LEASE_S = 3600.0
WAITS = worker("trap 'echo saved; exit 0' TERM; echo ready; while :; do read -t 0.1 < <(:); sleep 0.05; done")
STAYS = python_worker("import signal, time; signal.signal(15, print); print('ready'); time.sleep(1000)")
POLLS = python_worker("""
import time, tarmac
tarmac.should_pause()
print("ready")
while not tarmac.should_pause():
    time.sleep(0.02)
print("saved")
""")


def cut_off(attempt: AttemptDirectory, for_s: float, node: str = "n0") -> None:
    """The server has last asked about the attempt so long ago."""
    stamp(Path(attempt.node(node).lease), ago_s=for_s)
    ring(attempt.node(node).wake)


def stamp(path: Path, *, ago_s: float) -> None:
    """A file that was renewed so long ago."""
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int(ago_s * 1e9)
    os.utime(path, ns=(at_ns, at_ns))


@pytest.fixture
def divided() -> Iterator[Warm]:
    """A parent whose runners have no namespace of processes."""
    limit = "echo 0 > /proc/sys/user/max_pid_namespaces"
    within = ["unshare", "--user", "--map-root-user", "bash", "-c"]
    if subprocess.run([*within, limit], check=False, capture_output=True).returncode:
        pytest.skip("needs a user namespace to take the right away")
    with warm_parent(prefix=[*within, f'{limit}; exec "$@"', "bash"]) as parent:
        yield parent


@pytest.mark.parametrize("script", [WAITS, POLLS], ids=["by the signal", "by should_pause"])
def test_without_the_server_workers_are_asked_to_save_and_the_attempt_is_lost(
    warm: Warm, tmp_path: Path, script: dict[str, object]
) -> None:
    attempt = write_attempt(tmp_path, [script], lease_s=LEASE_S)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    cut_off(attempt, LEASE_S + 0.1)
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["code"]) == ("lost", "lease_expired")
    assert "n0 was cut off" in end["cause"]["message"]
    assert attempt.log().endswith("saved\n")
    assert [event["ask"] for event in attempt.events() if event["kind"] == "asked"] == ["lease_expired"]


def test_the_server_asking_about_the_attempt_renews_its_lease(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [WAITS], lease_s=LEASE_S)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    cut_off(attempt, LEASE_S - 60)
    before = Path(attempt.node().lease).stat().st_mtime
    operations.changes(number=0, directories=[str(attempt.path)], files=[], node_files=[])
    assert Path(attempt.node().lease).stat().st_mtime >= before + LEASE_S - 60
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused", "a lease that has not expired asks for nothing"


def test_while_the_cluster_reaches_its_node_the_server_may_be_down(warm: Warm, tmp_path: Path) -> None:
    contact = Path(lease.contact_path(str(tmp_path), "127.0.0.1"))
    contact.touch()
    stamp(contact, ago_s=1.0)
    attempt = write_attempt(tmp_path, [WAITS], lease_s=LEASE_S, contact=str(tmp_path))
    warm.start(attempt)
    attempt.wait_for_line("ready")
    cut_off(attempt, 2 * LEASE_S)
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused", "one of the two has reached it lately"


def test_without_the_cluster_and_the_server_it_is_lost(warm: Warm, tmp_path: Path) -> None:
    contact = Path(lease.contact_path(str(tmp_path), "127.0.0.1"))
    contact.touch()
    stamp(contact, ago_s=LEASE_S + 0.1)
    attempt = write_attempt(tmp_path, [WAITS], lease_s=LEASE_S, contact=str(tmp_path))
    warm.start(attempt)
    attempt.wait_for_line("ready")
    cut_off(attempt, LEASE_S + 0.1)
    assert attempt.ended()["cause"]["code"] == "lease_expired"


def test_a_worker_that_does_not_leave_is_ended_after_the_grace(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [STAYS], lease_s=LEASE_S, grace_s=0.2)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    cut_off(attempt, LEASE_S + 0.1)
    assert attempt.ended()["outcome"] == "lost"
    assert attempt.wait_for("worker_ended")["signal"] == "SIGKILL"


def test_a_lease_that_expires_before_the_workers_starts_none(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path, [WAITS], lease_s=LEASE_S, setup=[["bash", "-c", "echo setting; sleep 9"]]
    )
    warm.start(attempt)
    attempt.wait_for_line("setting", log="setup.n0")
    cut_off(attempt, LEASE_S + 0.1)
    assert attempt.ended()["cause"]["code"] == "lease_expired"
    assert "worker_started" not in attempt.kinds()


def test_an_attempt_that_needs_no_lease_has_none(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("true")])
    assert warm.run(attempt)["outcome"] == "completed"
    lease.renew(str(attempt.path))
    assert not Path(attempt.node().lease).exists()


def test_what_a_hanging_runner_does_not_end_its_guard_ends(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [STAYS], lease_s=LEASE_S, grace_s=0.0)
    runner = warm.start(attempt)
    attempt.wait_for_line("ready")
    pid = attempt.wait_for("worker_started")["pid"]
    wait_until(lambda: _guard_of(runner), "the runner has no guard")
    os.kill(runner, signal.SIGSTOP)
    try:
        cut_off(attempt, LEASE_S + lease.MARGIN_S + 0.1)
        wait_for_end(pid)
    finally:
        os.kill(runner, signal.SIGCONT)
    assert attempt.ended()["outcome"] in ("lost", "failed")


def test_workers_of_a_killed_runner_end_with_it_also_without_a_namespace(
    divided: Warm, tmp_path: Path
) -> None:
    attempt = write_attempt(tmp_path, [STAYS], lease_s=LEASE_S)
    runner = divided.start(attempt)
    attempt.wait_for_line("ready")
    pid = attempt.wait_for("worker_started")["pid"]
    guard = wait_until(lambda: _guard_of(runner), "the runner has no guard")
    os.kill(runner, signal.SIGKILL)
    wait_for_end(pid)
    wait_for_end(guard)


def test_the_guard_leaves_with_its_runner(divided: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [WAITS], lease_s=LEASE_S)
    runner = divided.start(attempt)
    attempt.wait_for_line("ready")
    guard = wait_until(lambda: _guard_of(runner), "the runner has no guard")
    assert is_running(guard)
    attempt.ask("stop")
    assert attempt.ended()["outcome"] == "stopped"
    wait_for_end(guard)


def _guard_of(runner: int) -> int | None:
    for child in Path(f"/proc/{runner}/task/{runner}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text().strip() == "tarmac-guard":
            return int(child)
    return None
