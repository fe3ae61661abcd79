"""Burst runs over the whole control plane in virtual time: the books of the providers are the judge."""

from __future__ import annotations

import pytest

from actors import ADA
from burst_labs import BurstLab
from fake_provider import CREATE, refused
from tarmac.model.burst.provider import Refusal
from tarmac.model.burst.rentals import RentalEnd, RentalState
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome


def test_i9_an_approved_run_rents_trains_and_gives_everything_back() -> None:
    """Two shapes without capacity, a third that has it; the ledger is what the books cost."""
    lab = BurstLab()
    lab.grant(1000.0)
    lab.aws.faults[CREATE].extend([refused(Refusal.NO_CAPACITY), refused(Refusal.QUOTA)])
    run = lab.submit(approve=False)
    lab.go_on(600.0)
    assert lab.run(run).state is RunState.QUEUED
    assert (lab.rentals(), lab.aws.requests) == ([], [])
    assert "tarmac burst approve" in lab.plane.why(ADA, run.id).unblocked_by
    lab.plane.burst.approve(ADA, run.id)
    lab.go_until(lambda: lab.run(run).state is RunState.RUNNING)
    first, second, third = lab.rentals(run)
    assert [each.end for each in (first, second, third)] == [RentalEnd.NO_CAPACITY, RentalEnd.QUOTA, None]
    assert [each.shape and each.shape.id for each in (first, second, third)] == ["cheap", "middle", "dear"]
    assert (third.approved, third.machines, third.state) == ("ada", 2, RentalState.READY)
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    assert lab.run(run).outcome is Outcome.COMPLETED
    lab.go_until(lambda: not lab.aws.books.left())
    lab.go_until(lambda: lab.states(run)[-1] is RentalState.ENDED)
    lab.go_on(600.0)
    assert lab.aws.books.rented_twice() == []
    assert lab.charged() == pytest.approx(lab.aws.books.cost(), rel=0.01)
    assert [each.name for each in lab.simulation.store.clusters()] == []
    assert {each.shape: each.machines for each in lab.plane.burst.stock(ADA)} == {
        "cheap": 0,
        "middle": 0,
        "dear": 2,
    }
