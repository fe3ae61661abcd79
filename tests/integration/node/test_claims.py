"""An attempt starts at most once on a node: claims, fences, second runners, reused pids."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from attempts import Warm, cold_runner, wait_for_end, worker, write_attempt
from tarmac.node.attempt import claims
from tarmac.node.attempt.claims import Claim
from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import Process


def test_a_second_runner_does_nothing(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo once")])
    warm.run(attempt)
    before = attempt.events()
    assert cold_runner(attempt) == 0
    wait_for_end(warm.start(attempt))
    assert attempt.events() == before
    assert attempt.log() == "once\n"


def test_many_runners_at_once_start_it_once(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo once")])
    for pid in [warm.start(attempt) for _ in range(10)]:
        wait_for_end(pid)
    attempt.ended()
    assert attempt.kinds().count("claimed") == 1
    assert attempt.log() == "once\n"


def test_a_fenced_node_never_starts(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo once")])
    assert claims.fence(attempt.node())
    wait_for_end(warm.start(attempt))
    assert attempt.events() == []
    assert claims.read(attempt.node()) == Claim(fenced=True)
    assert not claims.fence(attempt.node())


def test_what_is_claimed_cannot_be_fenced(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exit 0")])
    warm.run(attempt)
    assert not claims.fence(attempt.node())
    claim = claims.read(attempt.node())
    assert claim is not None
    assert claim.token == attempt.token


def test_of_many_claims_and_fences_one_holds(tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [])
    won: list[bool] = []
    barrier = threading.Barrier(8)

    def contend(number: int) -> None:
        barrier.wait()
        node = attempt.node()
        won.append(claims.fence(node) if number % 2 else claims.take(node, "token", pid=os.getpid()))

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won.count(True) == 1
    assert [path.name for path in Path(attempt.node().directory).iterdir()] == ["claim"]


def test_no_claim_yet(tmp_path: Path) -> None:
    assert claims.read(write_attempt(tmp_path, []).node()) is None


def test_a_reused_pid_is_not_the_runner() -> None:
    own = procfs.status(os.getpid())
    assert own is not None
    alive = Claim("token", own.process, procfs.boot_id())
    assert claims.is_alive(alive)
    earlier = Process(own.process.pid, own.process.start_ticks - 1)
    assert not claims.is_alive(alive._replace(process=earlier))
    assert not claims.is_alive(alive._replace(boot_id="another boot"))
    assert not claims.is_alive(alive._replace(process=None))


def test_a_broken_description_still_ends(warm: Warm, tmp_path: Path) -> None:
    for text in ("{", json.dumps({"protocol": 99}), json.dumps({"protocol": 1, "nodes": []}), "[]"):
        attempt = write_attempt(tmp_path, [worker("echo never")])
        (attempt.path / "attempt.json").write_text(text)
        warm.start(attempt)
        end = attempt.ended()
        assert (end["outcome"], end["cause"]["code"]) == ("lost", "platform_fault")
        assert "attempt.json" in end["cause"]["message"]


def test_no_such_attempt(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [])
    attempt.path.rename(tmp_path / "elsewhere")
    wait_for_end(warm.start(attempt))
    assert not attempt.path.exists()
