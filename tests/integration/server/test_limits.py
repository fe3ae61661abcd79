"""What one client can do to the others: large bodies, slow ones, and connections without end."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S, ended, home_at
from served import HELLO, TOKEN, Served, served
from tarmac.client import Client
from tarmac.model.errors import TooLarge, Unavailable
from tarmac.server.http.connections import LARGEST_BODY_BYTES, LARGEST_HEAD_BYTES, LARGEST_LIST_BYTES, Limits

HEAD = f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"


@contextlib.contextmanager
def connected(plane: Served, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A bare connection over TCP, from an address of this machine."""
    server = "127.0.0.1", plane.tcp_port
    with socket.create_connection(server, timeout=PATIENCE_S, source_address=(source, 0)) as opened:
        yield opened


def answering(client: Client, pid: int) -> int:
    """The process that serves, once it does."""
    while True:
        try:
            return client.version().pid
        except Unavailable:
            assert not ended(pid, within_s=0.02)


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return found


def first(connection: socket.socket, size: int) -> bytes:
    """The first bytes of an answer; none where the server closed."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(size)
    return b""


def test_a_body_that_is_too_large_is_refused_before_it_is_parsed(plane: Served) -> None:
    source = HELLO + "#" * LARGEST_BODY_BYTES
    with pytest.raises(TooLarge, match="8 MiB are the most") as refused:
        plane.client().submit(source)
    assert (refused.value.exit_code, refused.value.http_status) == (2, 413)
    assert plane.client().submit(HELLO).name == "hello"


def test_many_runs_at_once_may_be_larger_and_have_a_limit_too(plane: Served) -> None:
    transport, runs = plane.transport(), json.dumps({"runs": [{"source": HELLO}] * 4}).encode()
    answer = transport.request("POST", "/runs/batch", body=runs + b" " * LARGEST_BODY_BYTES)
    assert len(json.loads(answer.body)) == 4
    with pytest.raises(TooLarge):
        transport.request("POST", "/runs/batch", body=runs + b" " * LARGEST_LIST_BYTES)


def test_a_body_of_unknown_length_is_refused_once_it_is_too_large(plane: Served) -> None:
    with connected(plane) as connection:
        connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode())
        piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(LARGEST_BODY_BYTES // (1 << 20) + 1):
                connection.sendall(piece)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_large"


def test_a_body_that_stands_still_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path / "home", silence_s=0.2) as plane, connected(plane) as connection:
        connection.sendall(f"{HEAD}Content-Length: 100\r\nConnection: close\r\n\r\n{{".encode())
        assert rest(connection).startswith(b"HTTP/1.1 503 ")


def test_a_request_has_to_be_said_in_time(tmp_path: Path) -> None:
    with served(tmp_path / "home", limits=Limits(head_s=0.2)) as plane:
        for said in (b"", b"GET /api/v1/runs HTTP/1.1\r\nX-Slow: a"):
            with connected(plane) as connection:
                connection.sendall(said)
                assert rest(connection) == b""


def test_a_head_without_end_is_refused(plane: Served) -> None:
    with connected(plane) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(HEAD.encode() + b"X-Large: ")
            for _ in range(LARGEST_HEAD_BYTES // 4096 + 2):
                connection.sendall(b"a" * 4096)
        assert rest(connection)[:13] in (b"HTTP/1.1 400 ", b"")


def test_idle_connections_make_room_for_new_ones_and_requests_stay(tmp_path: Path) -> None:
    with served(tmp_path / "home", limits=Limits(tcp=4)) as plane, contextlib.ExitStack() as stack:
        first = stack.enter_context(connected(plane))
        end = f"Content-Length: {len(HELLO)}\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"
        first.sendall(f"{HEAD}{end}".encode())
        assert first.recv(12) == b"HTTP/1.1 100"
        idle = [stack.enter_context(connected(plane)) for _ in range(8)]
        assert rest(idle[0]) == b"", "the one that was idle longest made room"
        assert plane.remote_client(TOKEN).runs().runs == []
        assert plane.client().runs().runs == []
        first.sendall(HELLO.encode())
        assert b"HTTP/1.1 422 " in rest(first), "it had a request, and was left alone"


def test_one_peer_has_half_of_the_connections(tmp_path: Path) -> None:
    """However busy they are, another peer finds room; without idle ones a peer beyond its half is refused."""
    end = f"Content-Length: {len(HELLO)}\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"
    with served(tmp_path / "home", limits=Limits(tcp=4)) as plane, contextlib.ExitStack() as stack:
        busy = []
        for _ in range(4):
            connection = stack.enter_context(connected(plane))
            with contextlib.suppress(ConnectionError):
                connection.sendall(f"{HEAD}{end}".encode())
            busy.append(first(connection, 12))
        assert busy == [b"HTTP/1.1 100", b"HTTP/1.1 100", b"", b""]
        other = stack.enter_context(connected(plane, source="127.0.0.2"))
        other.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200 " in rest(other)


def test_connections_without_a_token_leave_the_home_its_own(tmp_path: Path) -> None:
    """A server that may open few files, and more connections than that."""
    files = 256
    with home_at(tmp_path / "home") as home, contextlib.ExitStack() as stack:
        home.root.mkdir(mode=0o700)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "tarmac.server", "--home", home.root, "--listen", f"127.0.0.1:{port}"]
        )
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (files, files))
        with Client(home=home.root, start=False) as client:
            pid = answering(client, server.pid)
            for _ in range(2 * files):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            for _ in range(3):
                with Client(home=home.root, start=False) as fresh:
                    assert fresh.version().pid == pid
            run = client.submit("name: hello\ncommand: ulimit -n\n")
            assert client.wait(run.id, timeout_s=PATIENCE_S).outcome == "completed"
            client.stop_server()
        assert server.wait(PATIENCE_S) == 0
