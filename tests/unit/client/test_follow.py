"""Followers through breaks: what they ask for when they come back, and whether they may start a server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from answers import a_chunk, a_run, a_status
from tarmac.client.follow import LogCursor, follow
from tarmac.model.errors import NotFound
from tarmac.server.logs.streams import frame, stopping_frame


class ScriptedTransport:
    """Answers each connection with the next script: pieces of a stream, or an error."""

    def __init__(self, *scripts: list[bytes] | Exception) -> None:
        self.asked: list[tuple[str, Mapping[str, str], bool]] = []
        self._scripts = list(scripts)

    @contextmanager
    def stream(
        self, path: str, *, headers: Mapping[str, str], start: bool, deadline: float | None
    ) -> Iterator[Iterator[bytes]]:
        self.asked.append((path, headers, start))
        script = self._scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        yield iter(script)


def log(text: str, offset: int, *, replica: int = 0) -> bytes:
    place = {"replica": replica, "offset": offset, "next": offset + len(text)}
    return frame("log", a_chunk({**place, "text": text}))


STATE = frame("state", a_status({"id": "r123", "state": "running"}))
END = frame("end", a_run({"id": "r123", "state": "ended"}))


def followed(transport: Any) -> list[tuple[str, Any]]:
    return [
        (message.event, message.data) for message in follow(transport, LogCursor("by-name", {"role": "main"}))
    ]


def test_after_a_break_it_asks_for_what_comes_next_of_the_very_same_run() -> None:
    transport = ScriptedTransport(
        [STATE, log("ab", 0), log("xyz", 10, replica=1)], ConnectionError(), [STATE, log("c", 2), END]
    )
    events = followed(transport)
    assert [event for event, _ in events] == ["state", "log", "log", "notice", "log", "end"]
    assert transport.asked[0] == ("/runs/by-name/logs?role=main", {}, True)
    places = {"Last-Event-ID": "1.main.0.0:2,1.main.1.0:13"}
    assert transport.asked[1:] == [("/runs/r123/logs?role=main", places, True)] * 2


def test_a_server_that_was_stopped_on_purpose_is_not_started_again() -> None:
    transport = ScriptedTransport([STATE, stopping_frame()], ConnectionError(), [STATE, END])
    assert [event for event, _ in followed(transport)] == ["state", "notice", "end"]
    assert [start for _, _, start in transport.asked] == [True, False, False]


def test_states_and_notices_that_come_again_are_told_once() -> None:
    notice = frame("notice", {"text": "virtual slots", "attempt": 1, "node": "n"})
    transport = ScriptedTransport([STATE, notice], [STATE, notice, END])
    texts = [data.text if event == "notice" else data.state for event, data in followed(transport)]
    assert texts == [
        "running",
        "virtual slots",
        "the server broke off; the run goes on. Connecting again",
        "ended",
    ]


def test_what_the_server_refuses_is_no_break() -> None:
    with pytest.raises(NotFound):
        followed(ScriptedTransport(NotFound("no such run")))


def test_a_deadline_ends_the_following_without_an_end() -> None:
    transport = ScriptedTransport([STATE], TimeoutError())
    cursor = LogCursor("r123", {})
    seen = list(follow(transport, cursor, deadline=time.monotonic() - 1))  # type: ignore[arg-type]
    assert [message.event for message in seen] == ["state"]
