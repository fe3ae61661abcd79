"""`tarmac usage`: its totals by user, project, pool, day and month (I13)."""

from __future__ import annotations

import click
import pytest

from tarmac.cli.commands.usage import _totals, moment, utc_moment
from tarmac.model.people.usage import UsedSlots

DAY_S = 86_400.0
MARCH_31 = 1_774_915_200.0


def used(user: str, hours: float, at: float | None = None, pool: str = "default") -> UsedSlots:
    where = {"cluster": "local", "pool": pool, "project": "vision"}
    return UsedSlots(user=user, runs=1, attempts=2, slot_s=hours * 3600.0, begin_at=at, **where)


def test_i13_totals_are_by_any_of_the_names_together() -> None:
    parts = [used("ada", 1.0), used("bob", 2.0), used("ada", 4.0, pool="big")]
    assert [(one["user"], one["slot_hours"], one["runs"]) for one in _totals(parts, ("user",))] == [
        ("ada", 5.0, 2),
        ("bob", 2.0, 1),
    ]
    assert [list(one.values())[:3] for one in _totals(parts, ("pool", "user"))] == [
        ["local/big", "ada", 4.0],
        ["local/default", "bob", 2.0],
        ["local/default", "ada", 1.0],
    ]


def test_i13_days_and_months_are_those_of_utc_and_in_order() -> None:
    parts = [
        used("ada", 1.0, MARCH_31 + DAY_S),
        used("bob", 2.0, MARCH_31 + DAY_S),
        used("ada", 3.0, MARCH_31),
    ]
    assert [list(one.values())[:3] for one in _totals(parts, ("day", "user"))] == [
        ["2026-03-31", "ada", 3.0],
        ["2026-04-01", "bob", 2.0],
        ["2026-04-01", "ada", 1.0],
    ]
    assert [list(one.values())[:2] for one in _totals(parts, ("month",))] == [
        ["2026-03", 3.0],
        ["2026-04", 3.0],
    ]


def test_i13_a_range_of_usage_is_in_utc() -> None:
    assert utc_moment("2026-03-31") == utc_moment("2026-03-31T02:00+02:00") == MARCH_31
    assert moment("2026-03-31T02:00+02:00") == MARCH_31
    with pytest.raises(click.BadParameter, match="is no time"):
        utc_moment("yesterday")
