"""The warm parent: what it answers, what it survives, what runners and workers do not inherit from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from attempts import PATIENCE_S, Warm, python_worker, wait_until, warm_parent, worker, write_attempt


def test_broken_requests_are_refused_and_do_no_harm(warm: Warm, tmp_path: Path) -> None:
    for line in (
        b"",
        b"{",
        b"[[]]",
        b"3",
        b'[{"directory": "/x"}]',
        b'[{"directory": 3, "node": "n"}]',
        b"\xff",
    ):
        (answer,) = warm.request(line)
        assert "no list of requests" in answer["error"]
    attempt = write_attempt(tmp_path, [worker("exit 0")])
    assert warm.run(attempt)["outcome"] == "completed"


def test_requests_may_wait_in_line(warm: Warm, tmp_path: Path) -> None:
    attempts = [write_attempt(tmp_path, [worker("exit 0")]) for _ in range(5)]
    lines = [json.dumps([{"directory": str(item.path), "node": "n0"}]) for item in attempts]
    first, rest = "\n".join(lines)[:30], "\n".join(lines)[30:]
    warm.channel.sendall(first.encode())
    warm.channel.sendall(f"{rest}\n".encode())
    with warm.channel.makefile() as answers:
        assert all("pid" in json.loads(answers.readline())[0] for _ in attempts)
    assert {item.ended()["outcome"] for item in attempts} == {"completed"}


def test_one_request_starts_many_runners(warm: Warm, tmp_path: Path) -> None:
    attempts = [write_attempt(tmp_path, [worker("exit 0")]) for _ in range(5)]
    answers = warm.request(
        json.dumps([{"directory": str(item.path), "node": "n0"} for item in attempts]).encode()
    )
    assert len({answer["pid"] for answer in answers}) == len(attempts)
    assert {item.ended()["outcome"] for item in attempts} == {"completed"}


def test_it_ends_when_its_server_does() -> None:
    with warm_parent() as warm:
        warm.channel.close()
        assert warm.process.wait(PATIENCE_S) == 0


def test_it_reaps_its_runners(warm: Warm, tmp_path: Path) -> None:
    pid = warm.start(attempt := write_attempt(tmp_path, [worker("exit 0")]))
    attempt.ended()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or None, f"{pid} is still there, unreaped")


def test_a_worker_inherits_nothing(warm: Warm, tmp_path: Path) -> None:
    source = """
import json, os, signal
print(json.dumps({
    "fds": sorted(os.listdir("/proc/self/fd"))[:3],
    "more": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")[3:-1]],
    "stdin": os.readlink("/proc/self/fd/0"),
    "session": os.getsid(0) == os.getpid() == os.getpgid(0),
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "ignored": next(l for l in open("/proc/self/status") if l.startswith("SigIgn")).split()[1],
}))
"""
    attempt = write_attempt(tmp_path, [python_worker(source)])
    warm.run(attempt)
    told = json.loads(attempt.log())
    ignored = int(told["ignored"], 16)
    by_python = {signal.SIGPIPE, signal.SIGXFSZ}
    assert [
        number for number in signal.valid_signals() if ignored >> (number - 1) & 1 and number not in by_python
    ] == []
    assert (told["fds"], told["more"], told["stdin"]) == (["0", "1", "2"], [], "/dev/null")
    assert told["session"] is True
    assert told["blocked"] == []


def test_a_runner_holds_on_to_nothing_of_the_warm_parent(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo ready; exec sleep 100")])
    pid = warm.start(attempt)
    attempt.wait_for_line("ready")
    held = open_files(pid)
    assert not any(link.startswith("socket:") for link in held.values())
    assert [held[number] for number in ("0", "1", "2")] == ["/dev/null"] * 3
    assert os.getsid(pid) == pid
    attempt.ask("stop")
    attempt.ended()


def test_wrong_arguments_are_told_how_it_is_used() -> None:
    from tarmac.node.starting import NODE_DIRECTORY

    for arguments in ([], ["walk"], ["warm", "x"], ["run", "a"]):
        command = [sys.executable, str(NODE_DIRECTORY), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert result.stderr.startswith("usage: ")


def open_files(pid: int) -> dict[str, str]:
    """What a process has open, by number; it may close some while we look."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[path.name] = str(path.readlink())
    return found
