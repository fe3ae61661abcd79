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
SELECT run.user_name, run.project, attempt.cluster, attempt.allocation, attempt.released, attempt.number,
       attempt.created_at, attempt.granted_at, attempt.ended_at
FROM attempt JOIN run ON attempt.run_id = run.id WHERE attempt.ended_at IS NOT NULL
"""

Span = tuple[tuple[str, ...], int, float, float, list[tuple[int, float]]]
"""The keys of an attempt, its number, begin and end; and the slots that it held, each until a time."""


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
    for keys, number, begin, end, parts in (*_of_attempts(), *_of_removed()):
        first = day_at = begin // _DAY_S * _DAY_S
        while day_at == first or day_at < end:
            amounts = sums.setdefault((day_at, *keys), [0, 0, 0.0])
            amounts[0] += day_at == first and number == 1
            amounts[1] += day_at == first
            for slots, until in parts:
                amounts[2] += slots * max(0.0, min(until, end, day_at + _DAY_S) - max(begin, day_at))
            day_at += _DAY_S
    if sums:
        names = ("day_at", *_KEYS, "runs", "attempts", "slot_s")
        table = sa.table("usage_day", *map(sa.column, names))
        rows = [dict(zip(names, (*key, *amounts), strict=True)) for key, amounts in sums.items()]
        op.get_bind().execute(sa.insert(table), rows)


def _of_attempts() -> Iterator[Span]:
    for row in op.get_bind().execute(sa.text(_ENDED)):
        allocation = json.loads(row.allocation)
        begin = row.granted_at if allocation.get("delegated") else row.created_at
        if begin is None:
            continue
        slots = Counter[tuple[str, int]]()
        for each in allocation["placements"]:
            slots[each["role"], each["replica"]] += len(each.get("slots", ()))
        gone = {(each["role"], each["replica"]): each["at"] for each in json.loads(row.released or "[]")}
        keys = (row.user_name, row.project, row.cluster, allocation.get("pool", "default"))
        parts = [(number, gone.get(replica, row.ended_at)) for replica, number in slots.items()]
        yield keys, row.number, begin, row.ended_at, parts


def _of_removed() -> Iterator[Span]:
    for (body,) in op.get_bind().execute(sa.text("SELECT body FROM usage_span")):
        span = json.loads(body)
        released = span.get("released", [])
        rest = span["slots"] - sum(slots for _, slots in released)
        parts = [(rest, span["end"]), *((slots, at) for at, slots in released)]
        keys = (span["user"], span["project"], span["cluster"], span["pool"])
        yield keys, span["attempt"], span["begin"], span["end"], parts
