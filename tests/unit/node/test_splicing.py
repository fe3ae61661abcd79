"""Bytes between the two connections of a pair."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from tarmac.node.host.forwarding import Splicer

LIMIT_S = 30.0
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def splicer() -> Iterator[Splicer]:
    made = Splicer()
    yield made
    made.close()


@pytest.fixture
def ends(splicer: Splicer) -> Iterator[Ends]:
    """The outer ends of a pair that is spliced."""
    (one, first), (other, second) = socket.socketpair(), socket.socketpair()
    splicer.add(first, second)
    for end in (one, other):
        end.settimeout(LIMIT_S)
    with one, other:
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


def test_one_that_is_gone_closes_the_other(splicer: Splicer, ends: Ends) -> None:
    one, other = ends
    other.close()
    assert one.recv(10) == b""
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_for_ever(one)
    assert len(splicer) == 0


def test_a_closed_one_takes_no_more(splicer: Splicer, ends: Ends) -> None:
    splicer.close()
    assert [end.recv(10) for end in ends] == [b"", b""]
    near, far = socket.socketpair()
    with near:
        splicer.add(far, socket.socket())
        assert near.recv(10) == b""
