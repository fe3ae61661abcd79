"""`/queue` and `/queue/changes` over HTTP: tables, and changes made whole or not at all (D13 to D15)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from served import OWNER, TOKEN, Served, served
from sim_engine import Behaviour
from tarmac.client import Client
from tarmac.model.cluster import Policy, Pool
from tarmac.model.errors import InvalidInput, NotFound, TarmacError

FULL = "name: first\nslots: 8\ncommand: train\n"
"""All that the two nodes of the fake cluster have."""

GUARANTEED_S = 60.0
LONG = Behaviour(duration_s=10_000.0)


@pytest.fixture
def preempting(tmp_path: Path) -> Iterator[Served]:
    """A cluster whose only pool lets later runs be preempted."""
    rules = Pool(cluster="local", preemption=True, guaranteed_s=GUARANTEED_S)
    with served(tmp_path / "home", behaviour=lambda _launch: LONG, pools=(rules,)) as made:
        yield made


@pytest.fixture
def sharing(tmp_path: Path) -> Iterator[Served]:
    """A cluster whose only pool is shared fairly."""
    with served(tmp_path / "home", pools=(Pool(cluster="local", policy=Policy.FAIR_SHARE),)) as made:
        yield made


def submit(plane: Served, *names: str) -> list[str]:
    """Runs of these names that want everything, a second apart; their ids."""
    ids = []
    for name in names:
        ids.append(plane.client().submit(FULL, overrides={"name": name}).id)
        plane.advance(1.0)
    plane.turn()
    return ids


def lines(client: Client, **query: Any) -> list[tuple[int, str, str, int]]:
    """The queue of the only pool: number, name, state, slots acquired."""
    [pool] = client.queue(**query)
    return [(run.number, run.name, run.state, run.slots_acquired) for run in pool.runs]


def test_a_part_of_the_queue(plane: Served) -> None:
    """D13: the first runs, those after a number, and changed ones wherever they stand, of how many."""
    client = plane.client()
    submit(plane, *(f"run-{number}" for number in range(6)))

    def numbers(pools: Any) -> tuple[int, list[int]]:
        [pool] = pools
        return pool.total, [run.number for run in pool.runs]

    assert numbers(client.queue(limit=2)) == (6, [1, 2])
    assert numbers(client.queue(limit=2, after=2)) == (6, [3, 4])
    assert numbers(client.queue(limit=100, after=5)) == (6, [6])
    assert numbers(client.queue(limit=2, mine=True)) == (6, [1, 2])
    changed = client.change_queue([{"run": "run-3", "ahead_of": "run-5"}], limit=1)
    assert numbers(changed) == (6, [1, 5])
    for limit in (0, 10_001):
        with pytest.raises(InvalidInput, match="limit"):
            client.queue(limit=limit)


def test_a_queue_is_read_page_by_page(plane: Served) -> None:
    """D13: a page is of 100 lines if a request names no limit, and says where the next one begins."""
    client = plane.client()
    client.submit_all([{"source": FULL, "overrides": {"name": f"run-{number}"}} for number in range(120)])
    plane.turn()
    [first] = client.queue()
    assert (first.total, len(first.runs), first.next) == (120, 100, 100)
    pages = [list(queue) for queue in client.queue_pages(limit=50)]
    assert [[len(page.runs) for page in queue] for queue in pages] == [[50, 50, 20]]
    assert [run.number for queue in pages for page in queue for run in page.runs] == list(range(1, 121))
    mine = [len(page.runs) for queue in client.queue_pages(limit=70, mine=True) for page in queue]
    assert mine == [70, 50]


def test_the_queue_in_scheduling_order(plane: Served) -> None:
    """D13: what holds slots and what waits, in scheduling order; ended runs are left out."""
    client = plane.client()
    ended = client.submit("name: over\ncommand: echo\n")
    client.stop(ended.id)
    submit(plane, "first", "second")
    urgent = client.submit(FULL, overrides={"name": "third", "priority": 5})
    [pool] = client.queue()
    assert (pool.cluster, pool.pool, pool.policy, pool.preemption) == (
        "local",
        "default",
        "priority",
        False,
    )
    assert [(run.number, run.name) for run in pool.runs] == [
        (1, "third"),
        (2, "first"),
        (3, "second"),
    ]
    assert [(run.slots_acquired, run.slots_needed) for run in pool.runs] == [(0, 8), (8, 8), (0, 8)]
    first = pool.runs[0]
    assert (first.id, first.priority, first.mode, first.user) == (urgent.id, 5, "batch", OWNER)
    assert first.estimate is not None
    assert pool.runs[1].estimate is None


def test_an_array_is_one_line(plane: Served) -> None:
    """D13: at the place of its first member, with all slots and the number of members in each state."""
    client = plane.client()
    client.submit(FULL, overrides={"name": "many", "slots": 2, "array": "0-4"})
    submit(plane, "last")
    plane.turn()
    [pool] = client.queue(arrays=True, limit=1)
    [line] = pool.runs
    assert (pool.total, pool.next, line.name, line.array_index) == (6, 5, "many", None)
    assert line.id == client.array("many").id
    assert (line.slots_acquired, line.slots_needed) == (8, 10)
    assert dict(line.members) == {"running": 4, "queued": 1}
    assert [run.name for run in client.queue(arrays=True)[0].runs] == ["many", "last"]
    assert [run.name for run in client.queue(arrays=True, after=5)[0].runs] == ["last"]


def test_only_ones_own_runs(plane: Served) -> None:
    submit(plane, "first")
    other = plane.remote_client(TOKEN)
    other.submit("name: theirs\ncommand: echo\n")
    assert [line[1] for line in lines(plane.client(), mine=True)] == ["first"]
    assert [line[1] for line in lines(other, mine=True)] == ["theirs"]


def test_a_pool_or_cluster_that_is_not_there_is_named(plane: Served) -> None:
    with pytest.raises(NotFound, match="defualt") as refused:
        plane.client().queue(pool="defualt")
    assert refused.value.hint == "did you mean default?"
    with pytest.raises(NotFound, match="there is no cluster 'moon'"):
        plane.client().queue(cluster="moon")


def test_a_run_moved_ahead_takes_the_slots(preempting: Served) -> None:
    """D14: `ahead-of` in a pool that preempts, as the document's example has it."""
    client = preempting.client()
    submit(preempting, "first", "second")
    preempting.advance(GUARANTEED_S)
    [pool] = client.change_queue([{"run": "second", "ahead_of": "first"}])
    assert [run.name for run in pool.runs] == ["second", "first"]
    for _ in range(4):
        preempting.advance(60.0)
    states = {name: state for _, name, state, _ in lines(client)}
    assert states["second"] == "running"
    assert states["first"] == "queued"


def test_a_change_is_told_to_who_watches_the_run(preempting: Served) -> None:
    client = preempting.client()
    _, second = submit(preempting, "first", "second")
    known = len(client.events(second))
    stream = client.follow_events(second, after=known)
    client.change_queue([{"run": "second", "priority": 3}])
    assert next(stream).data.event == "reordered"
    assert client.run(second).priority == 3


def test_the_same_change_twice_is_one(preempting: Served) -> None:
    client = preempting.client()
    submit(preempting, "first", "second")
    once = client.change_queue([{"run": "second", "ahead_of": "first"}])
    seqs = len(client.events("second"))
    again = client.change_queue([{"run": "second", "ahead_of": "first"}])
    assert [run.name for run in again[0].runs] == [run.name for run in once[0].runs]
    assert len(client.events("second")) == seqs


def test_all_changes_are_made_or_none(preempting: Served) -> None:
    """D14, D15: a batch with mistakes says each of them and changes nothing."""
    client = preempting.client()
    submit(preempting, "first", "second")
    before = client.queue()
    with pytest.raises(TarmacError) as refused:
        client.change_queue(
            [
                {"run": "second", "priority": 9},
                {"run": "frist", "priority": 1},
                {"run": "first", "weight": 2.0},
                {"run": "first", "pool": "nowhere"},
            ]
        )
    assert refused.value.exit_code == 2
    text = str(refused.value)
    assert "frist" in text
    assert "weight" in text
    assert "nowhere" in text
    after = client.queue()
    assert [run.priority for run in after[0].runs] == [run.priority for run in before[0].runs]


def test_fair_share_takes_weights_and_neither_priorities_nor_moves(sharing: Served) -> None:
    """D15: priority and weight exclude each other; moving is for the priority policy alone."""
    client = sharing.client()
    submit(sharing, "first", "second")
    [pool] = client.change_queue([{"run": "second", "weight": 2.5}])
    assert (pool.policy, [run.weight for run in pool.runs if run.name == "second"]) == (
        "fair_share",
        [2.5],
    )
    for change in ({"priority": 1}, {"ahead_of": "first"}, {"behind_of": "first"}, {"top": True}):
        with pytest.raises(TarmacError, match="fair"):
            client.change_queue([{"run": "second", **change}])


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"priority": 1, "weight": 2.0},
        {"ahead_of": "first", "top": True},
        {"weight": 0},
        {"priority": "high"},
        {"colour": "red"},
    ],
)
def test_a_change_that_says_nothing_or_too_much_is_refused(plane: Served, change: dict[str, Any]) -> None:
    submit(plane, "first", "second")
    with pytest.raises(InvalidInput):
        plane.client().change_queue([{"run": "second", **change}])
