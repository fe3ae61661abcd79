"""Answers as JSON, written by orjson: ten thousand runs cost milliseconds."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response


class JsonAnswer(Response):
    """A body of plain values, dicts and lists; enums are written as their value."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)
