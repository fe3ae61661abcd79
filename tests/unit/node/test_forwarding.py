"""Bytes of a connection that a link carries to another one at the other end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from tarmac.node.host.relay import FORWARD, Forwards, carry
from tarmac.node.wire.connection import Connection, Stream, over_socket, run_over_socket

LIMIT_S = 30.0
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def carried() -> Iterator[list[socket.socket]]:
    """Connections at the other end of the link, the next one last."""
    return []


@pytest.fixture
def link(carried: list[socket.socket]) -> Iterator[Connection]:
    """The agent's end of a link to a server, which carries each connection to the next of `carried`."""

    def forward(stream: Stream) -> None:
        with carried.pop() as found:
            carry(found, stream)

    near, far = socket.socketpair()
    here = over_socket(near, accepted=True)
    there = over_socket(far, find={FORWARD: forward}.__getitem__)
    threads = [
        Thread(target=run_over_socket, args=pair, daemon=True) for pair in ((near, here), (far, there))
    ]
    for thread in threads:
        thread.start()
    yield here
    here.close()
    for thread in threads:
        thread.join(LIMIT_S)


@pytest.fixture
def address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        place: tuple[str, int] = found.getsockname()
        return place


@pytest.fixture
def ends(carried: list[socket.socket], link: Connection, address: tuple[str, int]) -> Iterator[Ends]:
    """A program's connection to the address at the node, and the server's end of it."""
    forwards = Forwards()
    forwards.serve(link, address=address[0], port=address[1], of="elsewhere")
    other, far = socket.socketpair()
    carried.append(far)
    with socket.create_connection(address, LIMIT_S) as one, other:
        other.settimeout(LIMIT_S)
        yield one, other


def read_all(end: socket.socket) -> bytes:
    """What comes until the end of it."""
    with end.makefile("rb") as stream:
        return stream.read()


def send_for_ever(end: socket.socket) -> None:
    while True:
        end.send(bytes(1 << 20))


def test_both_ways_go_on_at_once_and_each_ends_by_itself(ends: Ends) -> None:
    one, other = ends
    there, back = os.urandom(5_000_000), os.urandom(3_000_000)

    def write(end: socket.socket, data: bytes) -> None:
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)

    writers = [Thread(target=write, args=pair) for pair in ((one, there), (other, back))]
    for writer in writers:
        writer.start()
    assert read_all(other) == there
    assert read_all(one) == back
    for writer in writers:
        writer.join(LIMIT_S)


def test_an_answer_comes_after_the_request_has_ended(ends: Ends) -> None:
    one, other = ends
    one.sendall(b"request")
    one.shutdown(socket.SHUT_WR)
    assert read_all(other) == b"request"
    other.sendall(b"answer")
    other.close()
    assert read_all(one) == b"answer"


def test_who_reads_nothing_is_waited_for(ends: Ends) -> None:
    one, other = ends
    one.setblocking(False)
    with pytest.raises(BlockingIOError):
        send_for_ever(one)
    other.sendall(b"still there")
    one.settimeout(LIMIT_S)
    assert one.recv(100) == b"still there"


def test_one_that_is_gone_closes_the_other(ends: Ends) -> None:
    one, other = ends
    other.close()
    assert one.recv(10) == b""
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_for_ever(one)


def test_a_lost_link_closes_its_connections_and_the_port(
    link: Connection, carried: list[socket.socket], address: tuple[str, int]
) -> None:
    forwards = Forwards()
    forwards.serve(link, address=address[0], port=address[1], of="elsewhere")
    other, far = socket.socketpair()
    carried.append(far)
    with socket.create_connection(address, LIMIT_S) as one, other:
        one.sendall(b"there")
        assert other.recv(10) == b"there"
        forwards.close_unused()
        link.close()
        for end in (one, other):
            with suppress(ConnectionResetError):
                assert end.recv(10) == b""
        forwards.close_unused()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, LIMIT_S)


def test_a_connection_that_the_server_refuses_ends(link: Connection, address: tuple[str, int]) -> None:
    """Here there is nothing to continue to: `carried` is empty."""
    forwards = Forwards()
    forwards.serve(link, address=address[0], port=address[1], of="elsewhere")
    with socket.create_connection(address, LIMIT_S) as one:
        assert one.recv(10) == b""
