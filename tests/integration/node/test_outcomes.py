"""How attempts end, with real runners and processes: success, failure and its peers, time limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attempts import Warm, cold_runner, python_worker, worker, write_attempt


def test_a_worker_that_exits_with_0_completes(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo out; echo err >&2; pwd; cat")])
    assert warm.run(attempt) | {"at": 0} == {
        "at": 0,
        "kind": "ended",
        "outcome": "completed",
        "cause": None,
        "finished": False,
    }
    assert attempt.kinds() == [
        "claimed",
        "worker_started",
        "running",
        "first_output",
        "worker_ended",
        "ended",
    ]
    assert attempt.log() == f"out\nerr\n{attempt.node().work}\n"


def test_a_runner_in_a_process_of_its_own_does_the_same(tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exit 0")])
    assert cold_runner(attempt) == 0
    assert attempt.ended()["outcome"] == "completed"


def test_the_cause_of_a_failure_names_worker_node_code_and_last_lines(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("seq 1 100; exit 7", role="eval", replica=3, index=1)])
    assert warm.run(attempt)["cause"] == {
        "code": "exit_code",
        "message": "worker eval.3.1 on n0 exited with 7",
        "role": "eval",
        "replica": 3,
        "worker": 1,
        "node": "n0",
        "exit_code": 7,
        "tail": [str(number) for number in range(81, 101)],
    }


def test_a_worker_that_stops_on_nan_says_so_whatever_its_launcher_printed_last(
    warm: Warm, tmp_path: Path
) -> None:
    """N8: the cause names the metric and the step, not only the exit code."""
    source = (
        "import tarmac\ntry:\n    tarmac.report(step=3, loss=float('nan'))\n"
        "except SystemExit:\n    print('a launcher\\n' * 50)\n    raise SystemExit(1) from None"
    )
    attempt = write_attempt(tmp_path, [python_worker(source, env={"TARMAC_STOP_ON_NAN": "1"})])
    cause = warm.run(attempt)["cause"]
    assert cause["message"] == "worker main.0.0 on n0 exited with 1: loss is nan at step 3 (stop_on_nan)"


def test_a_worker_that_does_not_stop_on_nan_fails_for_its_own_reason(warm: Warm, tmp_path: Path) -> None:
    source = "import tarmac; tarmac.report(step=3, loss=float('nan')); raise SystemExit(1)"
    cause = warm.run(write_attempt(tmp_path, [python_worker(source)]))["cause"]
    assert cause["message"] == "worker main.0.0 on n0 exited with 1"


def test_a_worker_ended_by_a_signal(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("kill -SEGV $$")])
    cause = warm.run(attempt)["cause"]
    assert (cause["code"], cause["signal"]) == ("signal", "SIGSEGV")


def test_sigkill_from_elsewhere_is_a_signal_and_not_called_out_of_memory(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("kill -KILL $$")])
    cause = warm.run(attempt)["cause"]
    assert (cause["code"], cause["signal"]) == ("signal", "SIGKILL")


def test_one_failing_worker_ends_its_peers_on_all_nodes_within_a_second(warm: Warm, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 100; done"
    attempt = write_attempt(
        tmp_path,
        {
            "n0": [worker("echo ready; sleep 100"), worker(stubborn, index=1)],
            "n1": [worker("read < $GATE; echo bye; exit 7", env={"GATE": str(tmp_path / "gate")}, replica=1)],
        },
    )
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    for name in attempt.nodes:
        warm.start(attempt, name)
    attempt.wait_for_line("ready")
    attempt.wait_for_line("ready", log="main.0.1")
    gate.write_text("go\n")
    failed_at = attempt.wait_for("worker_ended", "n1")["at"]
    ends = [attempt.ended(name) for name in attempt.nodes]
    assert max(end["at"] for end in ends) - failed_at < 1.0
    for end in ends:
        assert end["outcome"] == "failed"
        assert end["cause"]["message"] == "worker main.1.0 on n1 exited with 7"
        assert end["cause"]["tail"] == ["bye"]
    signals = {
        event["index"]: event["signal"] for event in attempt.events() if event["kind"] == "worker_ended"
    }
    assert signals == {0: "SIGTERM", 1: "SIGKILL"}


def test_continue_lets_the_others_go_on_and_fails_at_the_end(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path,
        [
            worker("exit 5", stop_on_failure=False),
            worker("while ! [ -e go ]; do sleep 0.01; done; echo done", index=1, stop_on_failure=False),
        ],
    )
    warm.start(attempt)
    attempt.wait_for("worker_ended")
    (Path(attempt.node().work) / "go").touch()
    end = attempt.ended()
    assert (end["outcome"], end["cause"]["exit_code"]) == ("failed", 5)
    assert attempt.log("main.0.1") == "done\n"
    assert not Path(attempt.paths.failed).exists()


@pytest.mark.parametrize(
    ("argv", "code", "exit_code", "words"),
    [
        (["trainn", "x"], "command_not_found", 127, "'trainn': there is no such command on the PATH"),
        (["./trainn"], "command_not_found", 127, "'./trainn': there is no such file"),
        ([], "command_not_found", 127, "its command is empty"),
    ],
)
def test_a_command_that_does_not_exist(
    warm: Warm, tmp_path: Path, argv: list[str], code: str, exit_code: int, words: str
) -> None:
    broken = {**worker(""), "argv": argv}
    attempt = write_attempt(tmp_path, {"n0": [broken], "n1": [worker("sleep 100", replica=1)]})
    for name in attempt.nodes:
        warm.start(attempt, name)
    for name in attempt.nodes:
        end = attempt.ended(name)
        assert (end["outcome"], end["cause"]["code"]) == ("failed", code)
        assert end["cause"]["exit_code"] == exit_code
        assert words in end["cause"]["message"]
    assert "running" not in attempt.kinds()


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/no/such/python\n", 0o755, "its first line names an interpreter that is not there"),
        ("echo", 0o755, "it is neither a program nor a script that begins with #!"),
        ("#!/bin/sh", 0o644, "Permission denied"),
    ],
)
def test_a_file_that_cannot_be_executed(warm: Warm, tmp_path: Path, text: str, mode: int, words: str) -> None:
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(mode)
    attempt = write_attempt(tmp_path, [worker("", argv=[str(script)])])
    assert warm.run(attempt)["cause"]["message"].endswith(f"{script}: {words}")


def test_the_time_limit(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exec sleep 100")], time_limit_s=0.2)
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "time_limit")
    assert end["cause"]["message"] == "reached its time limit of 0.2 s"
    assert [event["ask"] for event in attempt.events() if event["kind"] == "asked"] == ["time_limit"]


def test_setup_takes_part_of_the_time_limit(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo never")], setup=[["sleep", "100"]], time_limit_s=0.2)
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "time_limit")
    assert "worker_started" not in attempt.kinds()


def test_the_sdk_says_finished_whatever_the_exit_looks_like(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(
        tmp_path, [python_worker("import tarmac; tarmac.finished(); raise SystemExit(3)")]
    )
    end = warm.run(attempt)
    assert (end["outcome"], end["finished"]) == ("completed", True)


def test_a_worker_that_fills_its_log_does_not_slow_the_report(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("yes tarmac | head -c 210000000; echo last; exit 1")])
    end = warm.run(attempt)
    assert end["cause"]["tail"][-1] == "last"
    assert len(end["cause"]["tail"]) == 20
    (entry,) = Path(attempt.paths.index("main.0.0")).read_text().splitlines()[-1:]
    assert entry.split()[1] == "210000005"


def test_no_workers_here(warm: Warm, tmp_path: Path) -> None:
    assert warm.run(write_attempt(tmp_path, []))["outcome"] == "completed"
