"""Turns, cycle reports and blocks in words; which run preempted a followed one (I11, I12)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from answers import a_run, a_share, a_summary, an_attempt, an_event
from tarmac import api
from tarmac.cli.views.messages import block_text, cycle_text, ending, state_detail, submitted_text, turns_text
from tarmac.cli.views.terminal import Terminal
from tarmac.client import Client
from tarmac.model.progress import Event

BATCH: dict[str, Any] = {"id": "r1", "name": "digits", "mode": "batch", "max_turns": None, "turns": 0}
CYCLE: dict[str, Any] = {
    **BATCH,
    "mode": "cycle",
    "max_turns": 3,
    "turns": 2,
    "state": "running",
    "cycle_report": None,
}
PROVEN = {"turns": 3, "first_output_s": 4.2, "committed": True, "kept": True, "resumed": True, "proven": True}
UNREAD = {**PROVEN, "resumed": False, "proven": False}
SILENT = {**UNREAD, "first_output_s": None, "committed": False}


class Told:
    """A client that knows two runs and the history of the first."""

    def __init__(self, run: dict[str, Any], *events: tuple[str, dict[str, Any]]) -> None:
        self._run = run
        self._events = [an_event({"event": name, "detail": detail}) for name, detail in events]

    def run(self, reference: str) -> api.Run:
        return a_run(self._run if reference == "r1" else {"id": "r9", "name": "urgent"})

    def events(self, _reference: str) -> list[Event]:
        return self._events


def detail_of(state: str, run: dict[str, Any], *events: tuple[str, dict[str, Any]]) -> str:
    summary = {"id": "r1", "state": state, "attempt": 1, "mode": run["mode"]}
    return state_detail(cast(Client, Told({**run, "state": state}, *events)), a_summary(summary))


def test_a_batch_run_is_not_spoken_of() -> None:
    assert (submitted_text(a_run(BATCH)), turns_text(a_run(BATCH)), cycle_text(a_run(BATCH))) == ("", "", "")


def test_a_cycle_run_is_told_by_its_turns() -> None:
    assert submitted_text(a_run(CYCLE)) == " (cycle, 3 turns)"
    assert turns_text(a_run(CYCLE)) == "2 of 3"


@pytest.mark.parametrize(
    ("state", "cycle_report", "text"),
    [
        ("running", None, "nothing is shown yet"),
        (
            "running",
            UNREAD,
            "not proven yet: first output after 4.2s, a checkpoint was left, no later turn read it",
        ),
        (
            "ended",
            PROVEN,
            "pause and resume proven: first output after 4.2s, a checkpoint was left, a later turn read it",
        ),
        ("ended", SILENT, "pause and resume unproven: no output was seen, no checkpoint was left"),
        (
            "ended",
            {**UNREAD, "turns": 1},
            "pause and resume unproven: first output after 4.2s, a checkpoint was left, "
            "there was no second turn to read it",
        ),
    ],
)
def test_a_cycle_report_names_what_shows_it(state: str, cycle_report: Any, text: str) -> None:
    """I11: the report says whether a checkpoint was written and read again."""
    assert cycle_text(a_run({**CYCLE, "state": state, "cycle_report": cycle_report})) == text


def test_what_a_cycle_run_has_not_shown_is_told_at_its_end() -> None:
    ended = {**CYCLE, "outcome": "completed", "turns": 3, "started_at": 10.0, "ended_at": 280.0}
    unproven = "completed, pause and resume unproven: no checkpoint was left"
    assert ending(
        a_run({**ended, "cause": {"code": "unproven", "message": unproven}}), Terminal(), tail_shown=False
    ) == [f"tarmac: {unproven} (in 4m 30s)"]
    assert ending(a_run({**ended, "cause": None}), Terminal(), tail_shown=False) == [
        "tarmac: completed after 3 of 3 turns in 4m 30s: pause and resume proven"
    ]


def test_a_block_and_its_credit() -> None:
    share = {"period_at": 1000.0, "allotted_s": 1800.0, "rank": 0, "used_s": 720.0, "credit_s": 300.0}
    ended = {"created_at": 900.0, "ended_at": 1720.0}
    assert block_text(a_share(share), [an_attempt(ended)], 1840.0) == (
        "30m 00s of the period begun 14m ago, 12m 00s used, 5m 00s owed from before"
    )
    live = {"created_at": 1780.0, "ended_at": None}
    assert "13m 00s used" in block_text(a_share(share), [an_attempt(ended), an_attempt(live)], 1840.0)
    assert block_text(None, [], 1840.0) == ""


def test_a_run_that_gives_way_says_to_whom() -> None:
    asked = ("preempt_requested", {"reason": "make_way", "for": "r9"})
    assert detail_of("preempting", BATCH, ("started", {}), asked) == "preempted by urgent (r9)"
    assert detail_of("queued", BATCH, asked, ("vacated", {})) == "preempted by urgent (r9)"
    assert detail_of("queued", BATCH, asked, ("vacated", {}), ("reordered", {})) == "preempted by urgent (r9)"


def test_a_turn_that_is_over_is_counted() -> None:
    asked = ("preempt_requested", {"reason": "turn_over"})
    assert (
        detail_of("preempting", {**CYCLE, "turns": 1}, asked, ("vacated", {}), ("placed", {}))
        == "turn 2 of 3 is over"
    )
    assert detail_of("running", {**CYCLE, "turns": 1}) == "turn 2 of 3"
    assert detail_of("preempting", {**CYCLE, "turns": 1}, asked) == "turn 2 of 3 is over"
    assert detail_of("queued", CYCLE, asked, ("vacated", {})) == "turn 2 of 3 is over"


def test_a_run_moved_to_another_pool_says_so() -> None:
    assert (
        detail_of("preempting", BATCH, ("preempt_requested", {"reason": "pool_changed"}))
        == "moving to another pool"
    )


def test_a_run_that_left_reserved_nodes_says_so() -> None:
    asked = ("preempt_requested", {"reason": "reserved"})
    assert detail_of("queued", BATCH, asked, ("vacated", {})) == "its node is reserved for others"


@pytest.mark.parametrize("last", ["retried", "resume_requested", "faulted"])
def test_a_run_queued_again_for_another_reason_has_no_such_story(last: str) -> None:
    asked = ("preempt_requested", {"reason": "make_way", "for": "r9"})
    assert detail_of("queued", BATCH, asked, ("vacated", {}), ("placed", {}), (last, {})) == ""
