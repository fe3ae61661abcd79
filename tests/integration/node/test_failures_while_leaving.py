"""A worker that fails while all are asked to leave: its peers have the time to save, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from attempts import AttemptDirectory, Warm, worker, write_attempt

GRACE_S = 3600.0
READY = "echo ready; "
HANGS = "trap '' TERM; " + READY + "while :; do sleep 0.02; done"
CRASHES = (
    "trap '' TERM; " + READY + "until [ -e $TARMAC_PAUSE_FILE ]; do sleep 0.01; done; echo broken; exit 3"
)
LEAVES = READY + "until [ -e $TARMAC_PAUSE_FILE ]; do sleep 0.01; done"


def begin(
    warm: Warm,
    root: Path,
    workers: dict[str, list[str]],
    *,
    ask: str = "pause",
    patience_s: float = 0.4,
    stop_on_failure: bool = True,
    pause_signal: str | None = None,
) -> AttemptDirectory:
    """Start the workers of each node, and ask once all are there."""
    parts = {
        node: [
            worker(script, replica=rank, index=index, stop_on_failure=stop_on_failure)
            for index, script in enumerate(scripts)
        ]
        for rank, (node, scripts) in enumerate(workers.items())
    }
    attempt = write_attempt(root, parts, grace_s=GRACE_S, patience_s=patience_s, pause_signal=pause_signal)
    for node in attempt.nodes:
        warm.start(attempt, node)
    for rank, scripts in enumerate(workers.values()):
        for index in range(len(scripts)):
            attempt.wait_for_line("ready", log=f"main.{rank}.{index}")
    attempt.ask(ask)
    return attempt


def notices(attempt: AttemptDirectory, node: str) -> list[str]:
    return [event["text"] for event in attempt.events(node) if event["kind"] == "notice"]


@pytest.mark.parametrize("ask", ["pause", "preempt"])
def test_peers_that_hang_do_not_wait_for_the_grace(warm: Warm, tmp_path: Path, ask: str) -> None:
    attempt = begin(warm, tmp_path, {"n0": [CRASHES, HANGS]}, ask=ask)
    end = attempt.ended()
    assert end["outcome"] == "failed"
    assert end["cause"]["message"] == "worker main.0.0 on n0 exited with 3"
    assert end["cause"]["tail"][-1] == "broken"
    [said] = [text for text in notices(attempt, "n0") if "are ended" in text]
    assert said == (
        "the workers on n0 are ended: worker main.0.0 on n0 exited with 3 while all were leaving,"
        " and they saved nothing for 0.4 s"
    )


def test_peers_on_another_node_learn_of_it(warm: Warm, tmp_path: Path) -> None:
    attempt = begin(warm, tmp_path, {"n0": [HANGS], "n1": [CRASHES, HANGS]})
    ends = {node: attempt.ended(node) for node in attempt.nodes}
    assert [end["outcome"] for end in ends.values()] == ["paused", "failed"]
    assert ends["n1"]["cause"]["message"] == "worker main.1.0 on n1 exited with 3"
    for node in attempt.nodes:
        assert any("worker main.1.0 on n1 exited with 3" in text for text in notices(attempt, node))


def test_a_worker_killed_from_outside_has_failed(warm: Warm, tmp_path: Path) -> None:
    killed = CRASHES.replace("exit 3", "kill -KILL $$")
    attempt = begin(warm, tmp_path, {"n0": [killed, HANGS]}, pause_signal="SIGTERM")
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["code"], end["cause"]["signal"]) == ("failed", "signal", "SIGKILL")


def test_a_peer_that_saves_has_as_long_as_it_saves(warm: Warm, tmp_path: Path) -> None:
    """Several times the patience, and at its end the whole checkpoint."""
    parts = "for part in {1..20}; do head -c 2M /dev/zero >>part; sleep 0.2; done"
    saves = f"{LEAVES}; {parts}; mv part whole; echo saved"
    attempt = begin(warm, tmp_path, {"n0": [saves], "n1": [CRASHES]}, patience_s=0.8)
    assert attempt.ended("n1")["outcome"] == "failed"
    assert attempt.ended("n0")["outcome"] == "paused"
    assert attempt.log("main.0.0").endswith("saved\n")
    assert (Path(attempt.node("n0").work) / "whole").stat().st_size == 20 * 2 << 20


LEAVE_AS_ASKED = {
    "with 0": LEAVES,
    "by the signal": READY + "exec sleep 100",
    "with the shell's code for it": "trap 'exit 143' TERM; " + READY + "while :; do sleep 0.01; done",
    "as torchrun does": "trap 'echo api.SignalException: got signal: 15; exit 1' TERM; "
    + READY
    + "while :; do sleep 0.01; done",
}


@pytest.mark.parametrize("way", LEAVE_AS_ASKED)
def test_whoever_leaves_as_asked_leaves_the_others_their_time(warm: Warm, tmp_path: Path, way: str) -> None:
    saves = f"trap : TERM; {LEAVES}; sleep 0.5; sleep 0.5; echo saved"
    attempt = begin(
        warm, tmp_path, {"n0": [LEAVE_AS_ASKED[way], saves]}, patience_s=0.05, pause_signal="SIGTERM"
    )
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log("main.0.1").endswith("saved\n")


def test_a_failure_that_ends_no_others_ends_none_now(warm: Warm, tmp_path: Path) -> None:
    saves = LEAVES + "; sleep 0.5; echo saved"
    attempt = begin(warm, tmp_path, {"n0": [CRASHES, saves]}, patience_s=0.05, stop_on_failure=False)
    attempt.ended()
    assert attempt.log("main.0.1").endswith("saved\n")


def test_a_stop_is_a_stop_and_waits_no_longer_either(warm: Warm, tmp_path: Path) -> None:
    attempt = begin(warm, tmp_path, {"n0": [CRASHES, HANGS]}, ask="stop")
    assert attempt.ended()["outcome"] == "stopped"
