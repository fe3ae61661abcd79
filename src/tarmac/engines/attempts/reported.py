"""Values in the events of a runner, which a run can have written: checked. Called by `view`."""

from __future__ import annotations

from collections.abc import Mapping
from time import time as now
from typing import Any

from tarmac.model.image import AttemptImage

MOST_STEPS = 10**15
_DIGEST_CHARACTERS = len("sha256:") + 64
_SOURCE_CHARACTERS = 4000


def image(event: Mapping[str, Any]) -> AttemptImage:
    """What a runner says of its image. Raises ValueError, TypeError."""
    fetched, total = (
        min(max(0, int(event.get(f"{name}_bytes", 0))), MOST_STEPS) for name in ("fetched", "total")
    )
    return AttemptImage(
        digest=str(event.get("digest", ""))[:_DIGEST_CHARACTERS],
        source=str(event.get("source", ""))[:_SOURCE_CHARACTERS],
        fetched_bytes=fetched,
        total_bytes=total,
        fetch_s=min(max(0.0, float(event.get("fetch_s", 0.0))), float(MOST_STEPS)),
    )


def step(value: object) -> int | None:
    """A step, if it is one that could have been counted to."""
    return value if isinstance(value, int) and 0 <= value < MOST_STEPS else None


def time(value: Any) -> float:
    """A time of an event: a number, and not in the future. Raises ValueError, TypeError or OverflowError."""
    at = float(value)
    if not at >= 0.0:
        raise ValueError(f"{value!r} is no time")
    return min(at, now())


def whole(value: Any) -> int | None:
    if value is not None and (type(value) is not int or abs(value) >= 1 << 31):
        raise ValueError(f"{value!r:.40} is no whole number")
    return value
