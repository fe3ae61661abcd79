"""Calls and streams over one connection: both ends in this process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from tarmac.node.wire import frames, opening
from tarmac.node.wire.connection import (
    DATA,
    LARGEST_BYTES,
    WINDOW_BYTES,
    Connection,
    Lost,
    Stream,
    over_socket,
    pass_on,
    run_over_socket,
)

BOUND_S = 60.0
Operations = dict[str, Callable[..., Any]]


@contextmanager
def connected(operations: Operations, own: Operations | None = None) -> Iterator[Connection]:
    """The connecting end; the other end performs `operations`, and may call the `own` ones."""
    near, far = socket.socketpair()
    there = over_socket(far, find=operations.__getitem__, margin_s=None, accepted=True)
    here = over_socket(near, find=(own or {}).__getitem__)
    for found, connection in ((near, here), (far, there)):
        Thread(target=run_over_socket, args=(found, connection), daemon=True).start()
    try:
        yield here
    finally:
        here.close()


def echo(stream: Stream) -> int:
    """Send back every piece; returns the number of bytes."""
    count = 0
    for piece in stream:
        stream.send(piece)
        count += len(piece)
    return count


def call(connection: Connection, name: str, **arguments: Any) -> Any:
    return connection.call(name, arguments, timeout_s=BOUND_S)


def test_a_call_that_hangs_holds_up_no_other() -> None:
    go = Event()
    with connected({"hangs": lambda: go.wait(BOUND_S), "goes": go.set}) as connection:
        hanging = [connection._begin("hangs", {}, stream=False) for _ in range(20)]
        assert call(connection, "goes") is None
        assert [each.result(BOUND_S) for each in hanging] == [True] * 20


def test_values_and_bytes_travel_and_errors_come_back_as_they_are() -> None:
    def fail(error: str) -> None:
        raise {
            "os": OSError(28, "No space left", "/disk"),
            "value": ValueError("not so"),
            "bug": KeyError(1),
        }[error]

    with connected({"same": lambda value: value, "fail": fail}) as connection:
        value = {"text": "é", "data": b"\0\xff" * 1000, "list": [1, None, {"more": b""}]}
        assert call(connection, "same", value=value) == value
        with pytest.raises(OSError, match="No space left") as found:
            call(connection, "fail", error="os")
        assert (found.value.errno, found.value.filename) == (28, "/disk")
        for error, text in (("value", "not so"), ("bug", "fail failed: KeyError: 1")):
            with pytest.raises(ValueError, match=text):
                call(connection, "fail", error=error)
        with pytest.raises(ValueError, match="same failed: TypeError"):  # another version's arguments
            call(connection, "same", other=1)


def test_without_an_answer_in_time_a_call_is_lost() -> None:
    go = Event()
    with connected({"hangs": lambda: go.wait(BOUND_S)}) as connection:
        with pytest.raises(Lost, match="no answer within"):
            connection._begin("hangs", {}, stream=False).result(0.05)
        go.set()


def test_data_goes_both_ways_and_each_direction_ends_by_itself() -> None:
    data = os.urandom(5 * WINDOW_BYTES + 7)
    with connected({"echo": echo}) as connection:
        stream = connection.stream("echo", {})
        sender = Thread(target=lambda: (stream.send(data), stream.finish()), daemon=True)
        sender.start()
        assert b"".join(stream) == data
        assert stream.result(BOUND_S) == len(data)


def test_a_slow_reader_delays_its_own_stream_alone() -> None:
    go = Event()

    def slow(stream: Stream) -> int:
        go.wait(BOUND_S)
        return sum(map(len, stream))

    with connected({"slow": slow, "echo": echo}) as connection:
        stream = connection.stream("slow", {})
        with pytest.raises(Lost, match="nothing could be sent within"):
            stream.send(bytes(2 * WINDOW_BYTES), 0.1)
        other = connection.stream("echo", {})
        other.send(b"quick")
        other.finish()
        assert b"".join(other) == b"quick"
        go.set()
        stream.finish()
        assert stream.result(BOUND_S) <= WINDOW_BYTES


def test_an_answer_before_the_end_of_the_data_ends_the_upload() -> None:
    with connected({"refuse": lambda _: False}) as connection:
        assert connection.upload("refuse", {}, (bytes(1 << 20) for _ in range(1000))) is False


def test_an_operation_learns_that_its_caller_has_broken_off() -> None:
    lost = Event()

    def wait(stream: Stream) -> None:
        try:
            stream.receive(BOUND_S)
        except Lost:
            lost.set()

    def broken() -> Iterator[bytes]:
        yield b"begin"
        raise OSError("the source is gone")

    with connected({"wait": wait, "echo": echo}) as connection:
        connection.stream("wait", {}).break_off()
        assert lost.wait(BOUND_S)
        with pytest.raises(OSError, match="the source is gone"):
            connection.upload("echo", {}, broken())


def test_the_end_of_a_connection_fails_what_is_under_way_at_both_ends() -> None:
    ended = Event()

    def wait(stream: Stream) -> None:
        try:
            stream.receive(BOUND_S)
        finally:
            ended.set()

    with connected({"wait": wait}) as connection:
        stream = connection.stream("wait", {})
        connection.close()
        with pytest.raises(Lost, match="the connection was lost"):
            stream.result(BOUND_S)
        assert ended.wait(BOUND_S)
        with pytest.raises(Lost):
            call(connection, "wait")


def test_either_end_may_call_the_other_and_a_call_is_passed_on() -> None:
    """As a node does between a sidecar and the server."""
    news: list[str] = []
    with connected({"echo": echo, "note": news.append}) as server:
        operations: Operations = {"store": lambda stream, name: pass_on(stream, server, name, {})}
        with connected(operations) as sidecar:
            stream = sidecar.stream("store", {"name": "echo"})
            stream.send(b"content")
            stream.finish()
            assert (b"".join(stream), stream.result(BOUND_S)) == (b"content", 7)
            server.close()
            lost = sidecar.stream("store", {"name": "echo"})
            with pytest.raises(Lost):
                lost.result(BOUND_S)


@pytest.mark.parametrize(
    "sent",
    [
        b"c" + (LARGEST_BYTES + 1).to_bytes(4, "big"),
        frames.pack(b"c", b"\0\0\0\1" + b"\0\0\0\2[]"),
        frames.pack(b"c", b"\0"),
        b"".join(frames.pack(DATA, b"\0\0\0\2" + bytes(1 << 16)) for _ in range(17)),
    ],
    ids=["too large", "no message", "no number", "beyond its room"],
)
def test_an_end_that_violates_the_protocol_is_left(sent: bytes) -> None:
    hangs = Event()
    near, far = socket.socketpair()
    there = over_socket(far, find=lambda _: hangs.wait, accepted=True)
    runs = Thread(target=run_over_socket, args=(far, there), daemon=True)
    runs.start()
    with near:
        there.stream("wait", {})
        near.sendall(sent)
        runs.join(BOUND_S)
        assert not runs.is_alive()
        assert there.lost_at is not None


@pytest.mark.parametrize(
    ("token", "problem"), [(b"same", None), (b"same", "it is full"), (b"other", "token")]
)
def test_a_connection_is_opened_by_a_token_that_both_ends_know(token: bytes, problem: str | None) -> None:
    near, far = socket.socketpair()
    found: list[Any] = []

    def accept() -> None:
        with far:
            try:
                found.append(opening.accept(far, b"same"))
            except ConnectionError:
                return
            opening.answer(far, problem)
            far.sendall(b"bytes of the service")

    accepting = Thread(target=accept, daemon=True)
    accepting.start()
    with near:
        if problem is None:
            opening.request(near, token, "forward", number=3)
            assert near.recv(100) == b"bytes of the service"
        else:
            with pytest.raises((ValueError, ConnectionError), match=problem):
                opening.request(near, token, "forward", number=3)
        accepting.join(BOUND_S)
    assert found == ([("forward", {"number": 3})] if token == b"same" else [])
