"""The queue as a table, and the words that change it (D13, D14)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from tarmac import api
from tarmac.cli.commands.queue import read_assignments, read_options
from tarmac.cli.views.queueview import queue_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import Policy
from tarmac.model.errors import InvalidInput

NOW = 1000.0


def entry(number: int, **changes: Any) -> api.QueueEntry:
    whole: dict[str, Any] = {
        "number": number,
        "id": f"r{number}",
        "name": "digits",
        "mode": "batch",
        "priority": 0,
        "weight": 2.5,
        "submitted_at": 880.0,
        "slots_acquired": 0,
        "slots_needed": 4,
        "state": "queued",
        "user": "ada",
        "project": "default",
        "retry_at": None,
        "awaits": [],
        "native": None,
        "estimate": {"start_at": 1720.0, "latest_at": None, "basis": "history"},
    }
    return convert({**whole, **changes}, api.QueueEntry)


def pool(*runs: api.QueueEntry, **changes: Any) -> api.QueuePool:
    usual = api.QueuePool(
        cluster="local",
        pool="default",
        policy=Policy.PRIORITY,
        preemption=True,
        total=len(runs),
        runs=runs,
    )
    return replace(usual, **changes)


def test_a_queue_is_a_table_in_scheduling_order() -> None:
    """D13: what runs and what waits, each with its slots, its state, and when it is likely to start."""
    running = entry(1, mode="cycle", state="running", slots_acquired=4, priority=10, estimate=None)
    unknown = entry(3, estimate={"start_at": None, "latest_at": None, "basis": "unknown"})
    assert queue_text([pool(running, entry(2), unknown)], now=NOW, terminal=Terminal()) == (
        "pool default of local: by priority, with preemption\n"
        "#  ID  TYPE   NAME    PRIORITY  SUBMITTED  SLOTS  STATE    USER  EST. START\n"
        "1  r1  cycle  digits        10     2m ago    4/4  running  ada\n"
        "2  r2  batch  digits         0     2m ago    0/4  queued   ada   in 12 min\n"
        "3  r3  batch  digits         0     2m ago    0/4  queued   ada   unknown"
    )


def test_a_pool_of_fair_share_shows_weights() -> None:
    """D15: priority and weight are never both in force."""
    text = queue_text(
        [pool(entry(1), policy=Policy.FAIR_SHARE, preemption=False), pool(pool="empty")],
        now=NOW,
        terminal=Terminal(),
    )
    assert text.splitlines()[0] == "pool default of local: by fair share, without preemption"
    assert "WEIGHT" in text
    assert "PRIORITY" not in text
    assert " 2.5 " in text
    assert text.endswith("pool empty of local: by priority, with preemption\n  nothing runs or waits here")


def test_on_a_narrow_terminal_a_fair_share_still_shows_its_weights() -> None:
    text = queue_text([pool(entry(1), policy=Policy.FAIR_SHARE)], now=NOW, terminal=Terminal(width=50))
    assert "WEIGHT" in text
    assert "USER" not in text


def test_a_part_of_a_queue_says_how_much_is_left_out() -> None:
    part = pool(entry(1), entry(2), entry(77), total=100)
    lines = queue_text([part], now=NOW, terminal=Terminal()).splitlines()
    assert [line.split()[0] for line in lines[2:-1]] == ["1", "2", "77"]
    assert lines[-1] == "97 more: tarmac queue --all --pool default"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_queue_fits_a_narrow_terminal(width: int) -> None:
    long = entry(2, name="a-name-that-is-far-too-long-for-any-terminal-of-this-width")
    lines = queue_text([pool(entry(1), long)], now=NOW, terminal=Terminal(width=width)).splitlines()
    assert all(len(line) <= width for line in lines[1:])
    assert "r2" in lines[-1]


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("digits.priority=10", {"run": "digits", "priority": 10}),
        ("digits.priority=-3", {"run": "digits", "priority": -3}),
        ("job.weight=0.5", {"run": "job", "weight": 0.5}),
        ("my.run.v2.weight=.5", {"run": "my.run.v2", "weight": 0.5}),
        ("r7f.pool=big", {"run": "r7f", "pool": "big"}),
        ("r7f.resource-pool=big", {"run": "r7f", "pool": "big"}),
        ('r7f.pool="big"', {"run": "r7f", "pool": "big"}),
        ("a.b.ahead-of=c.d", {"run": "a.b", "ahead_of": "c.d"}),
        ("a.behind-of=@last", {"run": "a", "behind_of": "@last"}),
    ],
)
def test_a_batch_word_is_read(word: str, change: dict[str, Any]) -> None:
    """D14: names and weights may have dots of their own."""
    assert read_assignments([word]) == [change]


def test_everything_wrong_with_batch_words_is_said_at_once() -> None:
    words = [
        "a.prio=1",
        "b",
        "c.priority=1.5",
        "d.weight=0",
        ".pool=x",
        "e.pool=",
        "f.resource_pool=x",
        "g.=1",
    ]
    with pytest.raises(InvalidInput) as refused:
        read_assignments(words)
    result_text = [str(problem) for problem in refused.value.problems]
    assert [text.partition(":")[0] for text in result_text] == words
    assert "did you mean priority?" in result_text[0]
    assert "RUN.OPERATION=VALUE" in result_text[1]
    assert "whole number" in result_text[2]
    assert "above 0" in result_text[3]
    assert "did you mean resource-pool?" in result_text[6]


@pytest.mark.parametrize(
    "words",
    [
        ["a.priority=1", "a.priority=2"],
        ["a.priority=1", "a.ahead-of=b"],
        ["a.ahead-of=b", "a.behind-of=c"],
        ["a.pool=x", "a.pool=y"],
        ["a.weight=1", "a.weight=2"],
    ],
)
def test_words_that_contradict_each_other_are_refused(words: list[str]) -> None:
    with pytest.raises(InvalidInput, match="contradict each other"):
        read_assignments(words)


def test_options_say_the_same_of_several_runs() -> None:
    assert read_options(["a", "b"], {"pool": "big", "weight": "0.5"}) == [
        {"run": "a", "pool": "big"},
        {"run": "a", "weight": 0.5},
        {"run": "b", "pool": "big"},
        {"run": "b", "weight": 0.5},
    ]
    with pytest.raises(InvalidInput) as refused:
        read_options(["a"], {"priority": "high", "weight": "-1"})
    assert [str(problem).partition(":")[0] for problem in refused.value.problems] == [
        "--priority",
        "--weight",
    ]


def test_a_run_that_waits_for_others_says_for_which() -> None:
    awaited = [
        {"run_id": f"r{n}", "name": f"prep{n}", "condition": "completed", "met": False} for n in (7, 8)
    ]
    table = queue_text([pool(entry(1, awaits=awaited))], now=NOW, terminal=Terminal())
    assert "after prep7 +1" in table
