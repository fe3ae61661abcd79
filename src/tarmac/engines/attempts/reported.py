"""Checks values in the events of a runner, which a run may have forged. Called by `view`."""

from collections.abc import Mapping
from time import time as now
from typing import Any

from tarmac.model import codec
from tarmac.model.codec import replace
from tarmac.model.progress import AttemptImage, LogMatch
from tarmac.model.resources import GpuUtilization, NodeUtilization

MOST_STEPS = 10**15
MOST_CPUS = 10**6
MOST_GPUS = 256
_MOST_MATCHES = 100
_MATCH_CHARACTERS = 500
_DIGEST_CHARACTERS = len("sha256:") + 64
_SOURCE_CHARACTERS = 4000


def image(event: Mapping[str, Any]) -> AttemptImage:
    """A runner's report of its image. Raises ValueError, TypeError."""
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


def utilization(node: str, found: Mapping[str, Any]) -> NodeUtilization:
    """A node's measurement of its workers. Raises KeyError, ValueError, TypeError or OverflowError."""
    return NodeUtilization(
        node=node,
        at=time(found["at"]),
        memory_bytes=_amount(found["memory_bytes"]),
        cpus=min(max(0.0, float(found["cpus"])), float(MOST_CPUS)),
        gpus=tuple(
            GpuUtilization(
                index=_amount(gpu["index"]),
                busy_percent=min(_amount(gpu["busy_percent"]), 100),
                used_bytes=_amount(gpu["used_bytes"]),
                total_bytes=_amount(gpu["total_bytes"]),
            )
            for gpu in found["gpus"][:MOST_GPUS]
        ),
    )


def log_matches(event: Mapping[str, Any]) -> tuple[LogMatch, ...]:
    """The policies that match a line in the node's logs. Raises ValueError, TypeError, InvalidInput."""
    found = codec.decode(tuple[LogMatch, ...], list(event.get("log_matches", ()))[:_MOST_MATCHES])
    return tuple(
        replace(
            each, **{name: getattr(each, name)[:_MATCH_CHARACTERS] for name in ("policy", "node", "line")}
        )
        for each in found
    )


def step(value: object) -> int | None:
    """The value if it is a plausible step, else None."""
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


def _amount(value: Any) -> int:
    return min(max(0, int(value)), MOST_STEPS)
