"""Runners that serve one attempt after the other: quicker, and to each attempt like a new one."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attempts import AttemptDirectory, Warm, wait_for_end, wait_until, warm_parent, worker, write_attempt
from near_end import NearEnd
from tarmac.node.attempt import claims
from tarmac.node.attempt.claims import Claim
from tarmac.node.kernel import namespaces
from tarmac.node.session import frames
from tarmac.node.starting import Installation
from tarmac.node.warm import MOST_ATTEMPTS

pytestmark = pytest.mark.skipif(
    namespaces.find_way().by is None,
    reason="no runner has processes of its own here: each serves one attempt",
)

LONG_S = 600
OFTEN = 50


@pytest.fixture
def patient() -> Iterator[Warm]:
    """A warm parent whose runners wait for more."""
    with warm_parent(idle_s=LONG_S) as parent:
        yield parent


def run_until_again(
    warm: Warm, make: Callable[[], AttemptDirectory]
) -> tuple[AttemptDirectory, AttemptDirectory, int]:
    """Two attempts that one runner served one after the other, and its pid; both have ended."""
    served: dict[int, AttemptDirectory] = {}
    for _ in range(OFTEN):  # one that is not done with the first yet is not given the next
        attempt = make()
        pid = warm.start(attempt)
        assert attempt.ended()["outcome"] == "completed"
        if pid in served:
            return served[pid], attempt, pid
        served[pid] = attempt
    raise AssertionError(f"{OFTEN} attempts had as many runners")


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def claim_of(attempt: AttemptDirectory) -> Claim:
    claim = claims.read(attempt.node())
    assert claim is not None
    return claim


def waiting_attempt(root: Path) -> AttemptDirectory:
    """An attempt whose worker is ready, and waits to be let go."""
    attempt = write_attempt(root, [worker("echo ready; read _ < go")])
    Path(attempt.node().work).mkdir(parents=True)
    os.mkfifo(f"{attempt.node().work}/go")
    return attempt


def let_go(attempt: AttemptDirectory) -> None:
    Path(attempt.node().work, "go").write_text("\n")


def test_a_runner_serves_one_attempt_after_the_other(patient: Warm, tmp_path: Path) -> None:
    first, second, pid = run_until_again(patient, lambda: write_attempt(tmp_path, [worker("echo here")]))
    assert (first.log(), second.log()) == ("here\n", "here\n")
    assert Path(f"/proc/{pid}").exists()
    kinds = ["claimed", "worker_started", "running", "first_output", "worker_ended", "ended"]
    assert sorted(second.kinds()) == sorted(first.kinds()) == sorted(kinds)


def test_an_attempt_is_over_before_its_runner_is_and_the_next_one_does_not_revive_it(
    patient: Warm, tmp_path: Path
) -> None:
    """What the last event says is believed once the runner no longer serves the attempt."""
    quick = write_attempt(tmp_path, [worker("exit 0")])
    runner = patient.start(quick)
    quick.ended()
    done = claim_of(quick)
    wait_until(lambda: not claims.is_alive(done) or None, "the claim is not given up")
    for _ in range(OFTEN):
        slow = waiting_attempt(tmp_path)
        pid = patient.start(slow)
        slow.wait_for_line("ready")
        assert claims.is_alive(claim_of(slow))
        assert not claims.is_alive(done)
        let_go(slow)
        slow.ended()
        if pid == runner:
            return
    raise AssertionError(f"{runner} served nobody else")


def test_a_runner_that_has_served_as_many_as_it_may_takes_no_request_along(
    patient: Warm, tmp_path: Path
) -> None:
    served: Counter[int] = Counter()
    while MOST_ATTEMPTS not in served.values():
        attempt = write_attempt(tmp_path, [worker("exit 0")])
        served[patient.start(attempt)] += 1
        attempt.ended()
    last = next(pid for pid, count in served.items() if count == MOST_ATTEMPTS)
    wait_for_end(last)
    assert patient.run(write_attempt(tmp_path, [worker("exit 0")]))["outcome"] == "completed"


def test_an_attempt_finds_nothing_of_the_one_before(patient: Warm, tmp_path: Path) -> None:
    script = """
ls -A /mnt/checkpoints "$CHECKPOINT_ARTIFACT_PATH"
touch /mnt/checkpoints/mine || touch "$CHECKPOINT_ARTIFACT_PATH/mine"
wc -l < /proc/self/mountinfo; set -- /proc/[0-9]*; echo "$# processes"
sleep 100 &
"""
    first, second, _ = run_until_again(patient, lambda: write_attempt(tmp_path, [worker(script)]))
    assert second.log() == first.log()
    assert Path(second.artifacts["checkpoint"], "mine").exists()


def test_what_a_runner_opened_does_not_pile_up(patient: Warm, tmp_path: Path) -> None:
    _, _, pid = run_until_again(patient, lambda: write_attempt(tmp_path, [worker("exit 0")]))
    before = open_files(pid)
    for _ in range(5):
        run_until_again(patient, lambda: write_attempt(tmp_path, [worker("exit 0")]))
    wait_until(lambda: open_files(pid) <= before or None, f"more open than {before}: {open_files(pid)}")


@pytest.mark.parametrize(
    ("workers", "fields"),
    [
        (["exit 3"], {}),
        (["exit 0"], {"setup": [["true"]]}),
        (["exit 0"], {"hooks": {"after": [["true"]]}}),
        (["exit 0"], {"own_packages": True}),
    ],
    ids=["failed", "setup", "hooks", "packages"],
)
def test_who_may_have_kept_something_ends_with_the_attempt(
    patient: Warm, tmp_path: Path, workers: list[str], fields: dict[str, Any]
) -> None:
    attempt = write_attempt(
        tmp_path, [worker(script) for script in workers], environments=str(tmp_path / "shared"), **fields
    )
    pid = patient.start(attempt)
    attempt.ended()
    wait_for_end(pid)


def test_a_runner_beside_whose_worker_a_session_is_ends_with_the_attempt(
    patient: Warm, tmp_path: Path
) -> None:
    """What a person left in its namespace would see the next attempt."""
    attempt = waiting_attempt(tmp_path)
    pid = patient.start(attempt)
    attempt.wait_for_line("ready")
    near, far = socket.socketpair()
    with near, far:
        Installation(sys.executable).start_session(far)
        far.close()
        session = NearEnd(near)
        started = attempt.wait_for("worker_started")
        session.send_document(frames.WORKER, pid=started["pid"], token=attempt.token)
        session.run("sh", "-c", "trap '' HUP TERM; echo ready; while :; do sleep 1; done")
        session.until(lambda output: output == b"ready\n")
        let_go(attempt)
        attempt.ended()
        wait_for_end(pid)


def test_secrets_come_to_a_new_runner_and_go_with_it(patient: Warm, tmp_path: Path) -> None:
    _, _, idle = run_until_again(patient, lambda: write_attempt(tmp_path, [worker("exit 0")]))
    secret = {"name": "key", "variables": {"KEY": "{value}"}, "file": None, "target": None}
    attempt = write_attempt(tmp_path, [worker('[ "$KEY" = hush ]')], secrets=[secret])
    request = {"directory": str(attempt.path), "node": "n0", "secrets": {"key": "hush"}}
    pid = patient.request(json.dumps([request]).encode())[0]["pid"]
    assert pid != idle
    assert attempt.ended()["outcome"] == "completed"
    wait_for_end(pid)


def test_the_place_of_a_runner_that_was_killed_while_it_waited_is_taken(
    patient: Warm, tmp_path: Path
) -> None:
    _, _, pid = run_until_again(patient, lambda: write_attempt(tmp_path, [worker("exit 0")]))
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    assert patient.run(write_attempt(tmp_path, [worker("exit 0")]))["outcome"] == "completed"


def test_runners_do_not_wait_for_ever(tmp_path: Path) -> None:
    with warm_parent(idle_s=1) as warm:
        pid = warm.start(attempt := write_attempt(tmp_path, [worker("exit 0")]))
        attempt.ended()
        wait_for_end(pid)
        assert warm.run(write_attempt(tmp_path, [worker("exit 0")]))["outcome"] == "completed"


def test_who_waits_leaves_with_the_warm_parent_and_who_works_works_on(tmp_path: Path) -> None:
    with warm_parent(idle_s=LONG_S) as warm:
        working = waiting_attempt(tmp_path)
        busy = warm.start(working)
        working.wait_for_line("ready")
        _, _, idle = run_until_again(warm, lambda: write_attempt(tmp_path, [worker("exit 0")]))
    wait_for_end(idle)
    let_go(working)
    assert working.ended()["outcome"] == "completed"
    wait_for_end(busy)
