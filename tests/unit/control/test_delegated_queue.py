"""The queues of clusters with their own: their order is kept as runs change, and read a page at a time."""

from __future__ import annotations

from random import Random

import pytest

from actors import ADA, member
from examples import seeds
from seeded import BATCH
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.control.state.delegated_order import DelegatedOrder, Place
from tarmac.model.actor import Actor
from tarmac.model.array import RunArray
from tarmac.model.lifecycle import RunState
from tarmac.model.spec import Target
from tarmac.sched import WHOLE, Part


@pytest.mark.parametrize("seed", seeds(20))
def test_the_order_is_that_of_all_places_whatever_changed(seed: int) -> None:
    random, known, places = Random(seed), DelegatedOrder(), dict[str, Place]()
    for _ in range(300):
        run_id = f"r{random.randrange(30)}"
        places.pop(run_id, None)
        if random.random() < 0.7:
            part, first, second = random.randrange(3), random.randrange(3), random.random()
            places[run_id] = ("c", random.choice("pq"), part, first, second, run_id, "u")
        known.put(run_id, places.get(run_id))
        assert known.order == sorted(places.values())
        assert known.places == places


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=60.0),
        cluster=nodes(1, 1),
        batches={BATCH: nodes(2, 2, cluster=BATCH)},
    )


def submit(simulation: Simulation, name: str, *, actor: Actor = ADA, **more: object) -> str:
    wanted = spec(name=name, slots=4, target=Target(cluster=BATCH), **more)
    found = simulation.server.plane.submit([Submission(spec=wanted, actor=actor)])
    return found[0].run.id


def names(simulation: Simulation, part: Part = WHOLE, **choice: bool) -> tuple[list[str], int, int | None]:
    """The names on a page of the cluster's queue, its total, and where the next page begins."""
    pages = simulation.server.plane.queue(ADA, part, **choice)
    [page] = [each for each in pages if each.cluster == BATCH] or [None]
    return ([run.name for run in page.runs], page.total, page.next) if page else ([], 0, None)


def test_a_page_shows_the_present_order_from_its_place_on(simulation: Simulation) -> None:
    batch, plane = simulation.batches[BATCH], simulation.server.plane
    batch.closed = True
    first = submit(simulation, "a")
    for name in "bc":
        simulation.clock.advance(1.0)
        submit(simulation, name)
    simulation.settle_until(lambda: len(batch.waiting()) == 3)
    batch.unreachable = True
    last = submit(simulation, "e")
    submit(simulation, "d", actor=member("bob"), priority=1)
    assert names(simulation) == (["a", "b", "c", "d", "e"], 5, None)
    assert names(simulation, Part(limit=2)) == (["a", "b"], 5, 2)
    assert names(simulation, Part(limit=2, after=1)) == (["c", "d"], 5, 4)
    assert names(simulation, Part(limit=1, also=frozenset({last}))) == (["a", "e"], 5, 1)
    assert names(simulation, Part(limit=1, owner="bob")) == (["d"], 1, None)
    batch.unreachable = False
    plane.stop(ADA, first)
    batch.closed = False
    simulation.settle_until(lambda: plane.find(ADA, "b").state is RunState.RUNNING)
    assert names(simulation)[0][:2] == ["b", "c"]
    assert names(simulation)[1] == 4
    simulation.settle()
    assert names(simulation) == ([], 0, None)


def test_an_array_is_one_line_of_a_page(simulation: Simulation) -> None:
    simulation.batches[BATCH].closed = True
    submit(simulation, "many", array=RunArray(indices="0-9"))
    submit(simulation, "one")
    submit(simulation, "two")
    simulation.settle_until(lambda: len(simulation.batches[BATCH].waiting()) == 12)
    assert names(simulation, Part(limit=2), by_array=True) == (["many", "one"], 12, 11)
    assert names(simulation, Part(limit=2, after=10), by_array=True) == (["two"], 12, None)
