"""Sessions beside a worker, held against every engine that opens them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from engine_harness import BOUND_S, Harness, Work, ended, started
from near_end import NearEnd
from processes import ended as gone
from tarmac.model.abilities import OpensSessions
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.progress import WorkerStatus
from tarmac.node.session import frames

TERMINAL = {"rows": 31, "columns": 97, "name": "xterm"}
OPENED: dict[str, Any] = {"notices": []}

SLURM = pytest.param("slurm", marks=[pytest.mark.real_engine, pytest.mark.xdist_group("slurm")])

pytestmark = pytest.mark.parametrize("harness", ["local", "ray", SLURM], indirect=True)


@contextmanager
def near_end(harness: Harness, attempt: str, *, rank: int = 0) -> Iterator[NearEnd]:
    engine = harness.engine
    assert isinstance(engine, OpensSessions)
    descriptor = engine.open_session(attempt, engine.workers(attempt)[rank])
    with socket.socket(fileno=descriptor) as channel:
        yield NearEnd(channel)


def outcome(near: NearEnd) -> tuple[int | None, str, str]:
    """How a command ended, and all that it wrote."""
    code = near.end()["exit_code"]
    return code, near.output[frames.OUTPUT].decode(), near.output[frames.ERRORS].decode()


def test_a_command_sees_what_its_worker_sees(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True), nodes=2)
    with near_end(harness, attempt, rank=1) as near:
        assert near.run("sh", "-c", 'echo "$NODE_RANK"; pwd; readlink /proc/self/ns/pid; exit 7') == OPENED
        code, output, _ = outcome(near)
    rank, directory, namespace = output.splitlines()
    worker = harness.engine.workers(attempt)[1]
    assert (code, rank) == (7, "1")
    assert directory == str(Path(f"/proc/{worker.pid}/cwd").readlink())
    assert namespace == str(Path(f"/proc/{worker.pid}/ns/pid").readlink())


def test_output_and_errors_come_apart_without_a_terminal(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run("sh", "-c", "echo out; echo err >&2; cat; test -t 1 || echo none")
        assert outcome(near) == (0, "out\nnone\n", "err\n")


def test_a_command_reads_its_input_to_the_end(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    data = b"0123456789abcdef" * 65_536
    with near_end(harness, attempt) as near:
        near.run("cat", stdin=True)
        near.write(data)
        near.send(frames.INPUT)
        assert near.end()["exit_code"] == 0
        assert near.output[frames.OUTPUT] == data


def test_a_command_that_is_not_there_has_the_exit_code_of_a_shell(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run("no-such-command")
        assert near.end() == {
            "exit_code": 127,
            "signal": None,
            "message": "'no-such-command': no such file or directory",
        }


def test_without_a_command_it_is_the_shell_of_the_user(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run(stdin=True)
        near.write(b"echo shell; exit 9\n")
        code, output, _ = outcome(near)
        assert (code, output) == (9, "shell\n")


def test_a_terminal_has_a_size_that_changes_and_keys_that_interrupt(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        script = "trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.05; done"
        near.run("sh", "-c", script, terminal=TERMINAL)
        near.until(lambda output: b"31 97\r\n" in output)
        near.send_document(frames.RESIZE, rows=40, columns=120)
        near.until(lambda output: b"40 120\r\n" in output)
        assert near.end()["exit_code"] == 3
    with near_end(harness, attempt) as near:
        near.run("sh", "-c", "echo ready; exec sleep 3600", stdin=True, terminal=TERMINAL)
        near.until(lambda output: b"ready" in output)
        near.write(b"\x03")
        assert near.end()["signal"] == 2


def test_a_signal_reaches_a_command_that_reads_nothing_and_whose_output_nobody_reads(
    harness: Harness,
) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do printf %8000s; done", stdin=True)
        near.until(lambda output: b"ready" in output)
        near.send(frames.INPUT, b"x" * frames.FIRST_ROOM_BYTES)
        near.send_document(frames.SIGNAL, number=15)
        assert near.end()["exit_code"] == 5


def test_when_the_near_end_goes_all_that_the_command_started_is_ended(harness: Harness) -> None:
    """Also what ignores SIGHUP, runs in the background, or has a session of its own."""
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run(
            "bash",
            "-c",
            "trap '' HUP; sleep 3601 & setsid sleep 3602 & echo ready; wait",
            terminal=TERMINAL,
        )
        near.until(lambda output: b"ready" in output)
        pids = [_sleeper(harness, attempt, seconds) for seconds in (3601, 3602)]
    for pid in pids:
        assert gone(pid)
    assert not ended(harness.engine.observe([attempt])[attempt])


def test_a_session_ends_with_its_worker(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with near_end(harness, attempt) as near:
        near.run("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 1; done")
        near.until(lambda output: b"ready" in output)
        harness.engine.request_leave(attempt, LeaveRequest.STOP)
        assert "the worker has ended" in near.end()["message"]
    harness.settle(attempt, ended)


def test_nothing_begins_beside_a_worker_that_is_gone(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    worker = harness.engine.workers(attempt)[0]
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    harness.settle(attempt, ended)
    assert refusal(harness, attempt, worker) == "the worker has ended"


def test_a_connection_passes_bytes_both_ways_and_closes_each_by_itself(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    data = b"0123456789abcdef" * 65_536
    with socket.create_server(("127.0.0.1", 0)) as listener, near_end(harness, attempt) as near:
        echo = threading.Thread(target=_echo_at_end, args=(listener,))
        echo.start()
        assert near.connect(listener.getsockname()[1]) == OPENED
        near.write(data)
        near.send(frames.INPUT)
        assert near.end()["exit_code"] == 0
        assert near.output[frames.OUTPUT] == data
        echo.join(BOUND_S)


def test_a_port_where_nothing_listens_is_named(harness: Harness) -> None:
    attempt = started(harness, Work(lasts=True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with near_end(harness, attempt) as near:
        assert near.connect(port)["message"] == f"nothing listens on port {port} there: connection refused"


def refusal(harness: Harness, attempt: str, worker: WorkerStatus) -> str:
    """What is said in place of a session: by the engine where its cluster knows, else by the far end."""
    engine = harness.engine
    assert isinstance(engine, OpensSessions)
    try:
        descriptor = engine.open_session(attempt, worker)
    except Refused as refused:
        return refused.message
    with socket.socket(fileno=descriptor) as channel:
        answer: str = NearEnd(channel).run("true")["message"]
        return answer


def _echo_at_end(listener: socket.socket) -> None:
    """Take a connection, read it to its end, and send all of it back."""
    connection, _ = listener.accept()
    with connection:
        received = b""
        while data := connection.recv(1 << 16):
            received += data
        connection.sendall(received)


def _sleeper(harness: Harness, attempt: str, seconds: int) -> int:
    """The pid, as the machine has it, of `sleep SECONDS` in the namespace of the attempt's worker."""
    namespace = Path(f"/proc/{harness.engine.workers(attempt)[0].pid}/ns/pid").readlink()
    argv = [b"sleep", str(seconds).encode(), b""]
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone meanwhile
                if (path / "cmdline").read_bytes().split(b"\0") == argv and (
                    path / "ns/pid"
                ).readlink() == namespace:
                    return int(path.name)
    raise AssertionError(f"there is no sleep {seconds}")
