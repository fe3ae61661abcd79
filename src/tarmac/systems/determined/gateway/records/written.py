"""Values in the notation of Determined's API: times and pages. Called by the routes and their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

from tarmac.model.errors import InvalidInput
from tarmac.systems.determined.gateway.calls import Call

Item = TypeVar("Item")


def time_of(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC, with microseconds; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Seconds since the epoch of a time, a date or a month in the clients' notation; raises InvalidInput."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-10") else text)
    except ValueError:
        raise InvalidInput(f"{text!r:.60} is no time such as 2026-10-26T23:17:12Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def finite(value: float | None) -> float | None:
    """The value if JSON can represent it."""
    return value if value is not None and isfinite(value) else None


def is_descending(call: Call) -> bool:
    """Whether the requested order is descending."""
    return call.text("orderBy") == "ORDER_BY_DESC"


def page(
    call: Call, name: str, items: Sequence[Item], record: Callable[[Sequence[Item]], Sequence[Any]]
) -> dict[str, Any]:
    """The requested part of a list under the key `name`, and the range of that part.

    A negative `offset` counts from the end; `limit` 0 is all, -2 none (the count alone).
    """
    total, offset, limit = len(items), call.whole("offset"), call.whole("limit")
    begin = min(max(total + offset if offset < 0 else offset, 0), total)
    end = begin if limit < -1 else total if limit <= 0 else min(begin + limit, total)
    shown = record(items[begin:end])
    pagination = {"offset": begin, "limit": limit, "startIndex": begin, "endIndex": end, "total": total}
    return {name: shown, "pagination": pagination}
