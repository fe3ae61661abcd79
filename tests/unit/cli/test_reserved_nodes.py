"""The list of nodes with reservations."""

from __future__ import annotations

from time import mktime
from typing import Any

from msgspec import convert

from tarmac.api.clusters import Node
from tarmac.cli.commands.nodes import node_table
from tarmac.cli.views.terminal import Terminal

PLAIN = Terminal()


def node(**changes: Any) -> Node:
    usual = {
        **{"name": "n-1", "cluster": "local", "hostname": "n-1", "address": "127.0.0.1", "state": "up"},
        **{"slot_type": "h100", "slots": 8, "slots_used": 0, "cpus": 16.0, "memory_bytes": 2**35},
    }
    return convert({**usual, "own_disk": False, "runs": [], **changes}, Node)


def test_a_reserved_node_shows_its_next_reservation() -> None:
    """I13: `reserved` while one lasts, and the reason of a drain before it."""
    begin_at = mktime((2040, 1, 5, 8, 0, 0, 0, 0, -1))
    later = {"name": "course", "begin_at": begin_at, "end_at": begin_at + 3600, "users": ["bob"], "at": 1.0}
    now = {**later, "begin_at": 1.0, "users": [], "projects": ["vision", "audio"]}
    rows = node_table(
        [
            node(reservations=[later]),
            node(reservations=[now, later]),
            node(state="drained", reason="fan", drain={"reason": "fan"}, reservations=[now]),
        ],
        PLAIN,
    ).splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["up", "reserved", "drained"]
    assert rows[0].endswith("reserved for user bob from 2040-01-05 08:00 until 2040-01-05 09:00")
    assert "  reserved for project vision and project audio from " in rows[1]
    assert "  fan; reserved for project vision" in rows[2]
    groups = node_table([node(reservations=[now]), node()], PLAIN, grouped=True).splitlines()[1:]
    assert len(groups) == 2
