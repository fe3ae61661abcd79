"""The drawing of what runs did over time: who held slots when, from their histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from answers import an_event
from tarmac.model.progress import Event

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from timeline import Doing, Row, draw


def event(at: float, name: str, state: str, **detail: Any) -> Event:
    return an_event({"at": at, "event": name, "state": state, "detail": detail})


BLOCKS = Row(
    name="blocks",
    mode="interruptible",
    events=[
        event(0, "staged", "queued"),
        event(10, "placed", "starting", allotted_s=4.0),
        event(11, "started", "running"),
        event(13, "preempt_requested", "preempting", **{"for": "cutter"}),
        event(14, "vacated", "queued"),
        event(16, "placed", "starting", allotted_s=1.0),
        event(20, "finished", "ended"),
    ],
    promised={10.0: 4.0},
)

TURNS = Row(
    name="turns",
    mode="cycle",
    events=[
        event(12, "staged", "queued"),
        event(14, "placed", "starting", allotted_s=2.0),
        event(16, "finished", "ended"),
    ],
)


def test_a_run_holds_its_slots_until_it_is_asked_to_leave() -> None:
    first, second = BLOCKS.stretches(30.0)
    assert (first.number, first.began_at, first.ended_at, first.made_way_for) == (1, 10, 13, "cutter")
    assert (second.number, second.began_at, second.ended_at, second.allotted_s) == (2, 16, 20, 1.0)
    assert BLOCKS.used_s(10, 20) == 7
    assert BLOCKS.used_s(12, 17) == 2


def test_a_run_that_goes_on_holds_its_slots_until_now() -> None:
    (stretch,) = Row(name="a", mode="cycle", events=TURNS.events[:2]).stretches(15.0)
    assert (stretch.began_at, stretch.ended_at) == (14, 15.0)


def test_time_beyond_the_promise_is_drawn_apart() -> None:
    assert [BLOCKS.doing(at) for at in (-1, 5, 12, 13.5, 15, 16.5, 18, 25)] == [
        Doing.NOTHING,
        Doing.WAITS,
        Doing.BLOCK,
        Doing.LEAVES,
        Doing.WAITS,
        Doing.BLOCK,
        Doing.BEYOND,
        Doing.NOTHING,
    ]


def test_the_drawing() -> None:
    assert draw([BLOCKS, TURNS], began=8, ended=20, period_s=10, step_s=1) == [
        "          |",
        "blocks  ..===x..=---",
        "turns       ..##",
    ]


def test_workers_began_when_their_attempt_says_however_late_the_server_learned_of_it() -> None:
    events = [
        event(10, "placed", "starting", attempt=1, allotted_s=4.0),
        event(13, "started", "running", attempt=1),
        event(15, "preempt_requested", "preempting"),
    ]
    (late,) = Row(name="late", mode="interruptible", events=events, began={1: 11.0}).stretches(30.0)
    assert late.served_s(0.0, 30.0) == 4.0
