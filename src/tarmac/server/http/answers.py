"""JSON answers, encoded by msgspec: a list of ten thousand runs takes milliseconds."""

from urllib.parse import quote

import msgspec
from starlette.responses import Response


class JsonAnswer(Response):
    """A body of records and plain values; a record has all its fields, an enum its value."""

    media_type = "application/json"

    render = staticmethod(msgspec.json.encode)  # type: ignore[assignment]


def notice(text: str | None) -> dict[str, str] | None:
    """The header with a sentence that clients show beside an answer; None if there is no text."""
    return {"tarmac-notice": quote(text)} if text else None
