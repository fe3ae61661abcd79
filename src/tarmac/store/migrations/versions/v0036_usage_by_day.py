"""Usage added up by day, of all attempts that have ended. Applied by `upgrade`, after 0035."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DAY_S = 86_400.0
_KEYS = ("user_name", "project", "cluster", "pool")
_ENDED = """
SELECT run.user_name AS "user", run.project, attempt.cluster, allocation, released, number AS attempt,
       attempt.created_at, granted_at, attempt.ended_at AS "end"
FROM attempt JOIN run ON attempt.run_id = run.id WHERE attempt.ended_at IS NOT NULL
"""

Span = dict[str, Any]
"""An attempt as usage, in the form of `usage_span.body`."""


def upgrade() -> None:
    """Create the table, and fill it from the attempts, and from those of removed runs."""
    op.create_table(
        "usage_day",
        sa.Column("day_at", sa.Double, nullable=False),
        *(sa.Column(name, _BYTEWISE, nullable=False) for name in _KEYS),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("runs", "attempts")),
        sa.Column("slot_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("day_at", *_KEYS, name="pk_usage_day"),
    )
    op.create_index("ix_attempt_ended_at", "attempt", ["ended_at", "created_at"])
    sums: dict[tuple[Any, ...], list[float]] = {}
    for span in (*_of_attempts(), *_of_removed()):
        keys = (span["user"], span["project"], span["cluster"], span["pool"])
        first = day_at = span["begin"] // _DAY_S * _DAY_S
        while day_at == first or day_at < span["end"]:
            amounts = sums.setdefault((day_at, *keys), [0, 0, 0.0])
            amounts[0] += day_at == first and span["attempt"] == 1
            amounts[1] += day_at == first
            amounts[2] += _slot_s(span, day_at, day_at + _DAY_S)
            day_at += _DAY_S
    if sums:
        names = ("day_at", *_KEYS, "runs", "attempts", "slot_s")
        table = sa.table("usage_day", *map(sa.column, names))
        rows = [dict(zip(names, (*key, *amounts), strict=True)) for key, amounts in sums.items()]
        op.get_bind().execute(sa.insert(table), rows)


def _slot_s(span: Span, since: float, until: float) -> float:
    begin, end = max(span["begin"], since), min(span["end"], until)
    early = sum(slots * max(0.0, end - max(at, begin)) for at, slots in span.get("released", ()))
    used: float = span["slots"] * max(0.0, end - begin) - early
    return used


def _of_removed() -> Iterator[Span]:
    return map(json.loads, op.get_bind().execute(sa.text("SELECT body FROM usage_span")).scalars())


def _of_attempts() -> Iterator[Span]:
    for row in op.get_bind().execute(sa.text(_ENDED)).mappings():
        allocation = json.loads(row["allocation"])
        slots = Counter[tuple[str, int]]()
        for each in allocation["placements"]:
            slots[each["role"], each["replica"]] += len(each.get("slots", ()))
        released = json.loads(row["released"] or "[]")
        span = {**row, "pool": allocation.get("pool", "default"), "slots": slots.total()}
        span["begin"] = row["granted_at"] if allocation.get("delegated") else row["created_at"]
        span["released"] = [(each["at"], slots[each["role"], each["replica"]]) for each in released]
        if span["begin"] is not None:
            yield span
