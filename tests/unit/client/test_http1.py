"""HTTP as the client speaks it: what is sent, and every way in which an answer may come or break off."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tarmac.client.http1 import Connection

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the server's end of it."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours)
    with theirs:
        yield connection, theirs
    connection.close()


def answered(ends: tuple[Connection, socket.socket], answer: bytes, *, ended: bool = True) -> Connection:
    connection, server = ends
    server.sendall(answer)
    if ended:
        server.shutdown(socket.SHUT_WR)
    return connection


def test_a_request_has_a_head_and_a_body_of_known_length(ends: tuple[Connection, socket.socket]) -> None:
    connection, server = ends
    connection.send("POST", "/runs", {"Content-Type": "application/json"}, b"{}")
    head, _, body = server.recv(4096).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /runs HTTP/1.1",
        b"Host: localhost",
        b"Accept-Encoding: identity",
        b"Content-Length: 2",
        b"Content-Type: application/json",
    ]
    assert body == b"{}"


def test_a_body_in_pieces_has_the_length_that_the_caller_gives(
    ends: tuple[Connection, socket.socket],
) -> None:
    connection, server = ends
    connection.send("POST", "/code", {"Content-Length": "4"}, iter([b"ab", b"cd"]))
    connection.close()
    sent = b"".join(iter(lambda: server.recv(4096), b""))
    assert sent.count(b"Content-Length") == 1
    assert b"Content-Length: 4\r\n" in sent
    assert sent.endswith(b"\r\n\r\nabcd")


def test_no_header_can_bring_another_along(ends: tuple[Connection, socket.socket]) -> None:
    with pytest.raises(ValueError, match="line break"):
        ends[0].send("GET", "/", {"Authorization": "Bearer x\r\nHost: elsewhere"}, None)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: x\r\n\r\n", b"hello"),
        (b"Connection: close\r\n\r\nhello", b"hello"),
        (b"Content-Length: 0\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "until the end", "empty"],
)
def test_a_body_comes_whole_however_it_is_sent(
    ends: tuple[Connection, socket.socket], answer: bytes, body: bytes
) -> None:
    response = answered(ends, OK + b"Tarmac-Version:  1\r\n" + answer).receive()
    assert (response.status, response.headers["tarmac-version"]) == (200, "1")
    assert response.read() == body
    assert response.last == (b"close" in answer)


def test_answers_follow_one_another_on_a_connection(ends: tuple[Connection, socket.socket]) -> None:
    two = b"HTTP/1.1 204 No Content\r\n\r\n" + OK + b"content-length: 1\r\n\r\nx"
    connection = answered(ends, b"HTTP/1.1 100 Continue\r\n\r\n" + two, ended=False)
    first = connection.receive()
    assert (first.status, first.read(), first.last) == (204, b"", False)
    assert connection.receive().read() == b"x"


def test_a_piece_is_there_as_soon_as_it_has_come(ends: tuple[Connection, socket.socket]) -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    pieces = answered(ends, head + b"5\r\nfirst\r\n", ended=False).receive().pieces()
    assert next(pieces) == b"first"
    ends[1].sendall(b"4\r\nnext\r\n")
    assert next(pieces) == b"next"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 oops\r\n\r\n",
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Content-Length: -5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
        OK + b"Transfer-Encoding: chunked\r\n\r\nfive\r\nhello",
        OK + b"X: y\r\n" * 1000 + b"\r\n",
        OK + b"X: " + b"y" * 100_000,
    ],
)
def test_what_is_no_whole_answer_is_a_connection_that_broke_off(
    ends: tuple[Connection, socket.socket], answer: bytes
) -> None:
    with pytest.raises(ConnectionError):
        answered(ends, answer).receive().read()
