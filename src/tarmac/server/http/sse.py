"""Server-sent events: framing, keep-alive, the end of a stream.

A few lines of our own over StreamingResponse instead of sse-starlette: that library starts three helpers per
stream (pings, disconnects, shutdown), while these streams already wake up twenty times a second to read
files.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE_S = 15.0
COMMENT = b": still here\n\n"
"""Keeps a silent connection alive; clients ignore it."""

_STOPPING = "the server is stopping; its runs go on"


def wants_stream(request: Request) -> bool:
    """Whether the client asked for an event stream instead of a list."""
    return MEDIA_TYPE in request.headers.get("accept", "")


def frame(event: str, data: Any, *, identifier: str | None = None) -> bytes:
    """One message in wire format. JSON has no raw line breaks, so its data is one line."""
    head = f"id: {identifier}\n" if identifier is not None else ""
    return f"{head}event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def stopping_frame() -> bytes:
    """The message that the server was stopped on purpose: the client should not start it again at once."""
    return frame("stopping", {"text": _STOPPING})


class StreamResponse(StreamingResponse):
    """A streaming answer."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
