"""What runs did over time, from their histories: who held slots when, and a drawing of it for people.

Used by `sharing.py` and by the tests of time sharing. Pure: events in, stretches and text out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil, floor

from tarmac.model.progress import Event


class Doing(StrEnum):
    """What a run is about; the value is how it is drawn."""

    WAITS = "."
    TURN = "#"
    BLOCK = "="
    BEYOND = "-"  # time that is left over, beyond what was promised
    LEAVES = "x"
    NOTHING = " "


LEGEND = ". queued   # a turn   = a promised block   - time left over   x leaving"

_HOLDS = {"starting", "running"}
_LEAVES = {"preempting", "pausing", "stopping"}
_WAITS = {"pending", "queued", "paused"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A run held its slots from `began_at` until it was asked to leave, or ended, at `ended_at`.

    Its workers began at `started_at` (None: they never did). `made_way_for` is the id of the run that took
    its slots, if one did.
    """

    number: int
    began_at: float
    ended_at: float
    allotted_s: float | None
    made_way_for: str | None
    started_at: float | None = None

    def served_s(self, since: float, until: float) -> float:
        """How long its workers ran unasked between two times."""
        if self.started_at is None:
            return 0.0
        return max(0.0, min(self.ended_at, until) - max(self.started_at, since))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: its history, and what it was promised of each period (by when the period began).

    `began` is when the workers of each attempt began, by its number: the event `started` is of the time at
    which the server learned of it.
    """

    name: str
    mode: str
    events: Sequence[Event]
    promised: Mapping[float, float] = field(default_factory=dict)
    began: Mapping[int, float] = field(default_factory=dict)

    def state_at(self, at: float) -> str | None:
        """The state of the run then; None before it was there."""
        found = None
        for event in self.events:
            if event.at > at:
                break
            found = event.state
        return found

    def stretches(self, now: float) -> list[Stretch]:
        """Every time it held slots, oldest first; one that still does holds them until `now`."""
        found: list[Stretch] = []
        placed: Event | None = None
        started_at: float | None = None
        for event in self.events:
            if event.event == "placed":
                placed, started_at = event, None
            elif event.event == "started":
                started_at = self.began.get(event.detail.get("attempt", 0), event.at)
            elif placed is not None and event.state not in _HOLDS:
                made_way_for = event.detail.get("for")
                found.append(_stretch(len(found) + 1, placed, started_at, event.at, made_way_for))
                placed = None
        if placed is not None:
            found.append(_stretch(len(found) + 1, placed, started_at, now, None))
        return found

    def used_s(self, since: float, until: float) -> float:
        """How long it held its slots between two times."""
        return sum(
            max(0.0, min(each.ended_at, until) - max(each.began_at, since)) for each in self.stretches(until)
        )

    def doing(self, at: float) -> Doing:
        """What it is about then."""
        state = self.state_at(at)
        if state in _WAITS:
            return Doing.WAITS
        if state in _LEAVES:
            return Doing.LEAVES
        if state not in _HOLDS:
            return Doing.NOTHING
        if self.mode != "interruptible":
            return Doing.TURN
        began = max((period for period in self.promised if period <= at), default=None)
        if began is None or self.used_s(began, at) > self.promised[began]:
            return Doing.BEYOND
        return Doing.BLOCK


def draw(rows: Sequence[Row], *, began: float, ended: float, period_s: float, step_s: float) -> list[str]:
    """A line for each run, a character for each step of time, and above them a bar where a period begins."""
    width = max(len(row.name) for row in rows)
    columns = [began + (number + 0.5) * step_s for number in range(ceil((ended - began) / step_s))]
    lines = [f"{'':{width}}  {_ruler(columns, period_s=period_s, step_s=step_s)}"]
    lines += [f"{row.name:{width}}  {''.join(row.doing(at) for at in columns).rstrip()}" for row in rows]
    return [line.rstrip() for line in lines]


def _stretch(
    number: int,
    placed: Event,
    started_at: float | None,
    until: float,
    made_way_for: str | None,
) -> Stretch:
    return Stretch(
        number=number,
        began_at=placed.at,
        started_at=started_at,
        ended_at=until,
        allotted_s=placed.detail.get("allotted_s"),
        made_way_for=made_way_for,
    )


def _ruler(columns: Sequence[float], *, period_s: float, step_s: float) -> str:
    """A bar where a period begins."""
    starts = (floor(at / period_s) != floor((at - step_s) / period_s) for at in columns)
    return "".join("|" if start else " " for start in starts)
