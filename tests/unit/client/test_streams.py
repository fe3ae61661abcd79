"""Server-sent events: whatever the pieces, the messages are the same; errors come back as they were."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api import Error, StreamNotice, error_form
from tarmac.client.follow import Message, messages
from tarmac.client.transport import failure
from tarmac.model.errors import (
    InvalidInput,
    NotFound,
    Problem,
    Refused,
    StorageFull,
    TarmacError,
    Unauthorized,
    Unavailable,
)
from tarmac.server.logs.streams import COMMENT, frame

SENT = [
    ("notice", StreamNotice(text="a\nb\r\n\u2028 ☃"), "1"),
    ("stopping", StreamNotice(text="bye", attempt=1), None),
    ("notice", StreamNotice(text="", node="n1"), "x:1,y:2"),
]


@given(st.lists(st.integers(1, 30), max_size=40))
def test_messages_come_whole_however_the_network_cuts_them(cuts: list[int]) -> None:
    wire = COMMENT + b"".join(frame(event, data, identifier=identifier) for event, data, identifier in SENT)
    pieces, rest = [], wire
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    received = list(messages([*pieces, rest]))
    assert received == [Message(event, data, identifier) for event, data, identifier in SENT]


def test_an_unfinished_message_is_none() -> None:
    assert list(messages([frame("log", {})[:-1]])) == []


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput([Problem(message="m", file="f", line=1, column=2, hint="h"), Problem(message="n")]),
        NotFound("nothing there", hint="did you mean this?"),
        Refused("not now"),
        Unauthorized("who?"),
        Unavailable("later"),
        StorageFull("full"),
    ],
    ids=lambda error: error.code,
)
def test_errors_survive_the_journey(error: TarmacError) -> None:
    arrived = failure(error.http_status, msgspec.json.encode(Error(error=error_form(error))))
    assert type(arrived) is type(error)
    assert (arrived.message, arrived.hint, arrived.exit_code) == (error.message, error.hint, error.exit_code)
    if isinstance(error, InvalidInput):
        assert isinstance(arrived, InvalidInput)
        assert arrived.problems == error.problems


def test_an_answer_that_is_no_error_of_ours_is_told_as_such() -> None:
    for body in (b"", b"<html>", b"[]", b'{"error": "x"}', b'{"error": {"code": 1}}'):
        error = failure(502, body)
        assert "status 502" in error.message
        assert error.exit_code == 1
