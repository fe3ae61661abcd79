"""The points of a metric, in columns, so that a million of them need no object each. Pure; used by the stores
and by views of metrics.

An attempt that began from a checkpoint may repeat steps of an earlier one: the first step of a metric that an
attempt reports supersedes all reports of earlier attempts from that step on. Within one attempt the last
report of a step counts. Points without a step are all kept, in the order of their reports.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from math import isfinite
from operator import lt

from msgspec import Struct, field

NO_STEP = -(2**63)
"""The value for a report without a step."""

POINT_BYTES = 24


def _whole() -> array[int]:
    return array("q")


def _real() -> array[float]:
    return array("d")


class Points(Struct, frozen=True):
    """Points in the order of their reports: step (or NO_STEP), time in seconds, value."""

    steps: array[int] = field(default_factory=_whole)
    times: array[float] = field(default_factory=_real)
    values: array[float] = field(default_factory=_real)

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int | None, at: float, value: float) -> None:
        """Add a point at the end."""
        self.steps.append(NO_STEP if step is None else step)
        self.times.append(at)
        self.values.append(value)

    def extend(self, other: Points) -> None:
        """Add all points of another at the end."""
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def pick(self, places: Iterable[int]) -> Points:
        """The points at these places."""
        chosen = list(places)
        return Points(
            array("q", [self.steps[at] for at in chosen]),
            array("d", [self.times[at] for at in chosen]),
            array("d", [self.values[at] for at in chosen]),
        )

    def part(self, begin: int, end: int) -> Points:
        """The points from `begin` to before `end`."""
        return Points(self.steps[begin:end], self.times[begin:end], self.values[begin:end])

    def to_bytes(self) -> bytes:
        """All columns, each in little-endian order."""
        columns = (self.steps, self.times, self.values)
        return b"".join(_swapped(column).tobytes() for column in columns)


def points_of(content: bytes) -> Points:
    """The inverse of `Points.to_bytes`; raises ValueError for any other content."""
    if len(content) % POINT_BYTES:
        raise ValueError(f"{len(content)} bytes hold no whole number of points")
    size = len(content) // 3
    found = Points()
    columns: tuple[array[int] | array[float], ...] = (found.steps, found.times, found.values)
    for number, column in enumerate(columns):
        column.frombytes(content[number * size : (number + 1) * size])
        if sys.byteorder == "big":
            column.byteswap()
    return found


def effective(attempts: Sequence[Points]) -> Points:
    """The points of a metric that count, from those of each attempt in order; by step, if all have one."""
    parts: list[Points] = []
    bound: int | None = None
    for points in reversed(attempts):
        kept = points if bound is None else _below(points, bound)
        first = first_step(points)
        if first is not None:
            bound = first if bound is None else min(bound, first)
        parts.append(_last_of_each_step(kept))
    found = Points()
    for part in reversed(parts):
        found.extend(part)
    return found


def first_step(points: Points) -> int | None:
    """The first reported step."""
    return next((step for step in points.steps if step != NO_STEP), None)


def thinned(points: Points, most: int) -> Points:
    """At most `most` points that draw the same curve: the lowest and the highest of each bucket, one that is
    not finite if there is any, and always the first and the last.
    """
    count = len(points)
    if count <= most or count < 3:
        return points
    buckets = max(1, (most - 2) // 3)
    values = points.values
    places = {0, count - 1}
    for number in range(buckets):
        begin, end = count * number // buckets, count * (number + 1) // buckets
        piece = values[begin:end]
        if not isfinite(sum(piece)):
            odd = next((at for at, value in enumerate(piece) if not isfinite(value)), None)
            if odd is not None:
                places.add(begin + odd)
                finite = [at for at, value in enumerate(piece) if isfinite(value)]
                if finite:
                    places.add(begin + min(finite, key=piece.__getitem__))
                    places.add(begin + max(finite, key=piece.__getitem__))
                continue
        places.add(begin + piece.index(min(piece)))
        places.add(begin + piece.index(max(piece)))
    return points.pick(sorted(places))


def _below(points: Points, bound: int) -> Points:
    """The points of steps below a bound, and those without a step."""
    if all(step < bound for step in points.steps):
        return points
    return points.pick(at for at, step in enumerate(points.steps) if step < bound)


def _last_of_each_step(points: Points) -> Points:
    """The last point of each step, in order; all points if no report has a step."""
    steps = points.steps
    if all(map(lt, steps, islice(steps, 1, None))):
        return points
    last = {step: at for at, step in enumerate(steps) if step != NO_STEP}
    if not last:
        return points
    without = [at for at, step in enumerate(steps) if step == NO_STEP]
    return points.pick(sorted([*last.values(), *without], key=lambda at: (steps[at], at)))


def _swapped(column: array[int] | array[float]) -> array[int] | array[float]:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
