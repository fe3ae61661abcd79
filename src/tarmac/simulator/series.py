"""The queue and the cluster over time, in steps for a plot. Made by `comparing` for `plot`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tarmac.simulator.record import Record

STEPS = 480


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Averages over steps of equal length: waiting jobs, and the share of all slots that was held."""

    begins_at: float
    step_s: float
    queued: tuple[float, ...]
    utilisation: tuple[float, ...]


def series(record: Record, slots: int, steps: int = STEPS) -> Series:
    times = record.times
    span_s = times[-1] - times[0] if times else 0.0
    if span_s <= 0:
        return Series(begins_at=times[0] if times else 0.0, step_s=0.0, queued=(), utilisation=())
    step_s = span_s / steps
    return Series(
        begins_at=times[0],
        step_s=step_s,
        queued=_averages(record, record.queued, step_s, steps),
        utilisation=tuple(
            used / max(1, slots) for used in _averages(record, record.busy_slots, step_s, steps)
        ),
    )


def _averages(record: Record, values: Iterable[int], step_s: float, steps: int) -> tuple[float, ...]:
    """The time average of a value within each step; each value holds until the next time."""
    times = record.times
    sums = [0.0] * steps
    begin = times[0]
    for at, after, value in zip(times, times[1:], values, strict=False):
        if not value:
            continue
        first = min(int((at - begin) / step_s), steps - 1)
        last = min(int((after - begin) / step_s), steps - 1)
        if first == last:
            sums[first] += value * (after - at)
            continue
        sums[first] += value * (begin + (first + 1) * step_s - at)
        for step in range(first + 1, last):
            sums[step] += value * step_s
        sums[last] += value * (after - begin - last * step_s)
    return tuple(total / step_s for total in sums)
