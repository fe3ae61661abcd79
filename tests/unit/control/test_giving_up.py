"""Attempts that never begin are given up; those that only take long to set up are left alone."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.reconcilers.reconcile import START_LIMIT_S
from tarmac.control.service import Submission
from tarmac.model.lifecycle import RunState


@pytest.mark.parametrize(
    ("behaviour", "given_up"),
    [(Behaviour(hangs_at_start=True), True), (Behaviour(start_s=10 * START_LIMIT_S), False)],
    ids=["no sign of life", "a long setup"],
)
def test_only_silence_is_given_up(behaviour: Behaviour, given_up: bool) -> None:
    simulation = Simulation(behaviour=lambda _launch: behaviour, cluster=nodes(1, 1))
    (accepted,) = simulation.server.plane.submit([Submission(spec=spec(slots=1), actor=ADA)])
    simulation.turn_all()
    simulation.turn_all()
    assert simulation.store.run(accepted.run.id).state is RunState.STARTING
    simulation.clock.advance(START_LIMIT_S + 1)
    simulation.server.turn("reap")
    assert simulation.store.run(accepted.run.id).faults == int(given_up)
