"""Server-sent events, read. Called by the iterators of `follow`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message of a stream. `event` is `log`, `state`, `notice` or `end` for the logs of a run.

    `data` is the record docs/api.md gives for it; `id` is what resumes after it, where it has one.
    """

    event: str
    data: Any
    id: str | None = None


def messages(pieces: Iterable[bytes]) -> Iterator[Message]:
    """The messages in the pieces of a stream; comments are passed over, an unfinished message is dropped."""
    rest = b""
    for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            if message := _message(block):
                yield message


def _message(block: bytes) -> Message | None:
    fields: dict[str, str] = {}
    for line in block.decode().split("\n"):
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    return Message(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
