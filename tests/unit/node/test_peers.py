"""The remote shell between the nodes of an attempt, which `launcher: mpi` starts programs by (D5)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.node import peers
from tarmac.node.peers.serving import TOKEN, connect, read_arguments
from tarmac.node.wire.connection import Connection, Lost

PACKAGE = Path(peers.__file__).parent
WITHIN_S = 200.0


def start(port: int, rank: int, *script: str, nodes: int = 2, token: str = "shared") -> subprocess.Popen[str]:
    env = {
        **os.environ,
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NNODES": str(nodes)},
        **{"NODE_RANK": str(rank), "N_PROC": "2", TOKEN: token},
    }
    argv = [sys.executable, "-E", "-S", str(PACKAGE), "launch", f"node{rank + 1}", "itself", *script]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_program_reaches_the_other_nodes_by_ssh(port: int) -> None:
    """Input, both outputs and the exit code pass; the others end with the program."""
    script = (
        'echo said | ssh -x -p 22 root@rank1 "cat; echo at $NODE_RANK \\$NODE_RANK; echo oops >&2; exit 3"; '
        "echo $?; "
        "ssh rank0 true; echo $?; ssh rank7 true; echo $?; exit 5"
    )
    other, first = start(port, 1), start(port, 0, "sh", "-c", script)
    output, errors = first.communicate(timeout=WITHIN_S)
    assert output.splitlines() == ["said", "at 0 1", "3", "0", "255"]
    assert errors.splitlines() == ["oops", "'rank7' is no node of this run: rank0, rank1"]
    assert first.returncode == 5
    assert other.communicate(timeout=WITHIN_S) == ("", "")
    assert other.returncode == 0


def test_a_command_ends_with_whoever_asked_for_it(port: int, tmp_path: Path) -> None:
    """As when mpirun is killed: nothing that it started goes on."""
    fifo = tmp_path / "open"
    os.mkfifo(fifo)
    other, first = start(port, 1), start(port, 0, "sh", "-c", f'ssh rank1 "exec sleep 600 > {fifo}"')
    with fifo.open("rb") as written:  # it runs
        first.kill()
        assert written.read() == b"", "its end is seen by the end of the pipe"
    other.communicate(timeout=WITHIN_S)
    assert other.returncode == 0
    first.communicate(timeout=WITHIN_S)


def test_strangers_are_not_taken(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start(port, 0, "true")
    stranger = start(port, 1, token="another")
    try:
        monkeypatch.setenv(TOKEN, "shared")
        known = connected(port).stream("join", {"name": "rank1", "slots": 2})
        assert first.wait(WITHIN_S) == 0
        with suppress(Lost):
            assert known.result(WITHIN_S) is None
    finally:
        stranger.kill()
        stranger.communicate(timeout=WITHIN_S)
        first.communicate(timeout=WITHIN_S)


def connected(port: int) -> Connection:
    for _ in range(10_000):
        try:
            return connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue
    raise AssertionError("nobody listens")


@pytest.mark.parametrize(
    ("line", "node", "command"),
    [
        ("rank1 orted --x", "rank1", ["orted", "--x"]),
        ("-x -o StrictHostKeyChecking=no rank1 -p 12350 true", "rank1", ["true"]),
        ("-p12 user@rank1 -- -a b", "rank1", ["-a", "b"]),
        ("rank1", "rank1", []),
    ],
)
def test_options_of_ssh_are_passed_over(line: str, node: str, command: list[str]) -> None:
    assert read_arguments(line.split()) == (node, command)


def test_the_processes_of_horovod_find_one_another(port: int) -> None:
    """Keys in scopes over HTTP; a scope in which every rank has found the others is empty again."""
    script = (
        "import os, urllib.request as http, urllib.error\n"
        f"url = 'http://127.0.0.1:{port}/local_n1/'\n"
        "def ask(method, key, body=None):\n"
        "    request = http.Request(url + key, data=body, method=method)\n"
        "    try: return http.urlopen(request).read().decode() or 'done'\n"
        "    except urllib.error.HTTPError as error: return str(error.code)\n"
        "print(ask('GET', '0'), ask('PUT', '0', b'here'), ask('PUT', '1', b'there'), ask('GET', '1'))\n"
        "print(ask('DELETE', '0'), ask('GET', '1'), ask('DELETE', '1'), ask('GET', '1'), ask('PUT', ''))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    result = rendezvous(port, sys.executable, "-c", script)
    assert result.stdout.splitlines() == ["404 done done there", "done there done 404 400"], result.stderr
    assert result.returncode == -9, "it is the command itself"


def test_a_command_that_cannot_meet_anybody_says_why(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        result = rendezvous(port, "true")
    assert result.returncode == 127
    assert "true cannot be started with a meeting point: [Errno 98] Address already in use" in result.stderr


def rendezvous(port: int, *script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-E", "-S", str(PACKAGE), "rendezvous", *script],
        env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
