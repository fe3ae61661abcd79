"""Burst runs over the whole control plane in virtual time: the books of the providers are the judge."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from actors import ADA
from burst_labs import BurstLab, shape
from fake_provider import CREATE, Fault, Knobs, lost, refused
from sim_engine import Behaviour
from tarmac.api.account_operations import LimitBody
from tarmac.model.burst.provider import Refusal, ThingKind
from tarmac.model.burst.rentals import RentalEnd, RentalState
from tarmac.model.burst.shapes import BurstRequest
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Channel, Occasion, Receiver, Subscription
from tarmac.model.progress import CauseCode, Outcome

DAY_S = 86_400.0
MAIL = Subscription(
    receiver=Receiver(channel=Channel.EMAIL, address="ada@lab.example"),
    on=(Occasion.CREDITS, Occasion.BURST),
)


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
    stock = [each.stock for each in lab.plane.burst.shapes(ADA)]
    assert {each.shape: each.machines for each in stock if each is not None} == {
        "cheap": 0,
        "middle": 0,
        "dear": 2,
    }


def test_a_spot_notice_saves_a_checkpoint_and_the_next_shape_resumes() -> None:
    """The platform's doing: no retry is spent, and the run says why it moved."""
    shapes = (shape("spot", 0.5, spot=True), shape("steady", 2.0))
    lab = BurstLab(
        shapes=shapes, behaviour=lambda _launch: Behaviour(duration_s=3000.0, checkpoint_period_s=10.0)
    )
    lab.grant(1000.0)
    run = lab.submit()
    rental = lab.ready(run)
    lab.go_on(1000.0)
    lab.aws.notice(lab.machines(rental)[0].id)
    lab.go_until(lambda: lab.rentals(run)[-1].number == 2)
    first, second = lab.rentals(run)
    assert (first.end, first.state) == (RentalEnd.RECLAIMED, RentalState.ENDED)
    assert "taken back" in first.text
    lab.ready(run)
    assert lab.rentals(run)[-1].shape == shapes[1]
    assert second.approved == "ada", "it was approved once"
    attempt = lab.simulation.store.attempts(run.id)[0]
    assert attempt.outcome is Outcome.PREEMPTED
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    found = lab.run(run)
    assert (found.outcome, found.failures, found.faults) == (Outcome.COMPLETED, 0, 0)
    assert lab.now() - 1_000_000.0 < 5000.0, "the work before the notice was not lost"
    events = lab.simulation.store.events(run.id)
    assert [each.detail["reason"] for each in events if "reason" in each.detail] == ["reclaimed"]
    lab.check_over()


def test_machines_that_vanish_are_replaced_by_others() -> None:
    """No notice, and the other machine of the gang is given back before new ones are rented."""
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()
    rental = lab.ready(run)
    lab.go_on(600.0)
    lab.aws.kill(lab.machines(rental)[1].id)
    lab.go_until(lambda: len(lab.rentals(run)) == 2)
    assert lab.rentals(run)[0].end is RentalEnd.RECLAIMED
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    assert (lab.run(run).outcome, lab.run(run).failures) == (Outcome.COMPLETED, 0)
    lab.check_over()


def test_credits_that_end_stop_the_run_after_a_warning_and_give_back() -> None:
    lab = BurstLab(behaviour=lambda _launch: Behaviour(duration_s=DAY_S, leave_s=5.0))
    lab.grant(2.0)
    run = lab.submit(notify=(MAIL,))
    lab.ready(run)
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED, within_s=DAY_S)
    found = lab.run(run)
    assert (found.outcome, found.cause and found.cause.code) == (
        Outcome.STOPPED,
        CauseCode.CREDITS_EXHAUSTED,
    )
    lab.check_over()
    assert 2.0 <= lab.charged() < 2.1, "it stops when they are used up, not a period later"
    occasions = [each.occasion for each in lab.simulation.store.notifications.of_run(run.id)]
    assert Occasion.CREDITS in occasions
    late = lab.submit()
    lab.go_on(1200.0)
    assert (lab.run(late).state, len(lab.aws.requests)) == (RunState.QUEUED, 1)
    assert "credits of user ada are used up" in lab.plane.why(ADA, late.id).unblocked_by
    lab.grant(100.0)
    lab.ready(late)


def test_a_budget_that_ends_warns_asks_the_run_to_leave_and_rents_no_more() -> None:
    lab = BurstLab(behaviour=lambda _launch: Behaviour(duration_s=DAY_S, leave_s=5.0))
    lab.grant(1000.0)
    run = lab.submit(burst=BurstRequest(budget=3.0), notify=(MAIL,))
    lab.ready(run)
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED, within_s=DAY_S)
    found = lab.run(run)
    assert (found.outcome, found.cause and found.cause.code) == (
        Outcome.STOPPED,
        CauseCode.BUDGET_EXHAUSTED,
    )
    assert found.cause is not None
    assert "budget of the run is used up" in found.cause.message
    lab.check_over()
    assert 3.0 <= lab.aws.books.cost() < 3.2
    rental = lab.rentals(run)[-1]
    assert rental.end is RentalEnd.BUDGET
    assert rental.warned_at is not None
    assert rental.releasing_at is not None
    assert rental.releasing_at - rental.warned_at > 600.0
    messages = lab.simulation.store.notifications.of_run(run.id)
    assert [each.about["text"] for each in messages if each.occasion is Occasion.BURST] == [
        "the budget of the run is used up: 2.40 of 3: it is asked to leave then"
    ]


def test_a_monthly_budget_counts_what_is_still_being_created() -> None:
    """Two runs at once: each alone could be paid for, both cannot."""
    lab = BurstLab(shapes=(shape("dear", 30.0),), behaviour=lambda _launch: Behaviour(duration_s=300.0))
    lab.plane.limits.set(ADA, LimitBody(user="ada", rent_budget=16.0))
    first, second = lab.submit(), lab.submit()
    lab.go_on(120.0)
    assert len(lab.aws.requests) == 1
    waiting = lab.plane.why(ADA, second.id)
    assert "runs of user ada may rent for 16 a month" in waiting.unblocked_by
    lab.complete(first)
    lab.plane.limits.set(ADA, LimitBody(user="ada", rent_budget=1000.0, rent_per_hour=50.0))
    lab.go_on(120.0)
    assert "may rent for 50 an hour; this one needs 60" in lab.plane.why(ADA, second.id).unblocked_by
    lab.plane.limits.set(ADA, LimitBody(user="ada", rent_per_hour=60.0))
    lab.complete(second)


@pytest.mark.parametrize("fault", [None, lost(after=True), lost(), lost(late_s=60.0)])
def test_an_owner_who_stops_during_a_create_leaves_nothing(fault: Fault | None) -> None:
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()

    def stop(operation: str) -> Fault | None:
        if operation == CREATE:
            lab.plane.stop(ADA, run.id)
            return fault
        return None

    lab.aws.draw = stop
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    lab.check_over()
    assert len(lab.rentals(run)) == 1


@pytest.mark.parametrize("outage_s", [600.0, DAY_S])
@pytest.mark.parametrize("moment", ["create", "start", "training", "leaving"])
def test_a_provider_that_is_down_costs_no_run_and_leaves_nothing(outage_s: float, moment: str) -> None:
    lab = BurstLab(knobs=Knobs(pending_s=60.0, silence_s=inf))
    lab.grant(1000.0)
    run = lab.submit()
    if moment == "create":
        lab.aws.draw = lambda operation: lost(after=True) if operation == CREATE else None
        lab.go_until(lambda: bool(lab.aws.requests))
        lab.aws.draw = lambda _operation: None
    elif moment == "start":
        lab.go_until(lambda: lab.states(run) == [RentalState.STARTING])
    else:
        lab.ready(run)
    if moment == "leaving":
        lab.plane.stop(ADA, run.id)
    lab.aws.knobs.down = lab.now(), lab.now() + outage_s
    lab.go_on(outage_s + 1.0)
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED, within_s=DAY_S)
    assert lab.run(run).outcome is (Outcome.STOPPED if moment == "leaving" else Outcome.COMPLETED)
    assert lab.run(run).failures == 0
    lab.check_over()


def test_a_machine_that_appears_after_all_hope_is_deleted_and_charged() -> None:
    """Its rental has ended; the next one of the run has to wait until it is gone."""
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()
    lab.aws.faults[CREATE].append(lost(late_s=260.0))
    lab.go_until(lambda: lab.states(run)[:1] == [RentalState.ENDED])
    lab.plane.stop(ADA, run.id)
    assert lab.rentals(run)[0].end is RentalEnd.ANSWER_LOST
    lab.go_on(600.0)
    assert lab.aws.books.left() == []
    late = lab.rentals(run)[0]
    assert (late.state, len(late.things)) == (RentalState.ENDED, 2)
    assert "appeared after its end" in late.text
    lab.check_over()
    assert lab.charged() == pytest.approx(lab.aws.books.cost())


def test_two_servers_and_a_stranger_in_one_account_end_nothing_of_each_other() -> None:
    """Equal run ids and numbers are no confusion: each server knows its own tag alone."""
    one = BurstLab()
    two = BurstLab(books=one.aws.books, clock=one.simulation.clock, ids="b")
    strangers = [one.aws.stranger(), one.aws.stranger(kind=ThingKind.ADDRESS)]
    for lab in (one, two):
        lab.grant(1000.0)
    runs = [one.submit(), two.submit()]
    for number in range(80):
        for lab in (one, two):
            lab.turn()
        if number % 20 == 19:
            one.simulation.start()
        one.simulation.clock.advance(30.0)
    one.turn()
    assert runs[0].id == runs[1].id
    for lab, run in zip((one, two), runs, strict=True):
        assert lab.run(run).outcome is Outcome.COMPLETED
        assert [each.end for each in lab.rentals(run)] == [RentalEnd.RUN_ENDED]
    left = one.aws.books.left()
    assert left == strangers
    assert [each.deletes for each in strangers] == [[], []]
    assert [each.id for each in one.plane.burst.strangers(ADA)] == [f"aws/{each.id}" for each in strangers]


def test_a_gang_is_whole_or_given_back() -> None:
    lab = BurstLab(knobs=Knobs(short_by=1))
    lab.grant(1000.0)
    run = lab.submit(slots=12)
    lab.go_until(lambda: lab.rentals(run)[-1].number == 2)
    first = lab.rentals(run)[0]
    assert (first.end, first.state) == (RentalEnd.HALF_GANG, RentalState.ENDED)
    assert "2 of 3" in first.text
    lab.aws.knobs.short_by = 0
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    assert lab.run(run).outcome is Outcome.COMPLETED
    lab.check_over()


def test_after_all_shapes_come_growing_pauses_and_why_names_every_try() -> None:
    lab = BurstLab()
    run = lab.submit()
    lab.aws.draw = lambda operation: refused(Refusal.NO_CAPACITY) if operation == CREATE else None
    lab.go_on(3600.0)
    tried = [each.shape.id for each in lab.rentals(run) if each.shape is not None]
    assert tried[:6] == ["cheap", "middle", "dear"] * 2
    created = [each.created_at for each in lab.rentals(run) if each.created_at is not None]
    pauses = [later - sooner for sooner, later in pairwise(created)]
    assert max(pauses[:2]) < 5.0
    assert pauses[2] >= 60.0
    assert max(pauses) >= 480.0
    why = lab.plane.why(ADA, run.id)
    assert "middle: no_capacity (the fake refuses: no_capacity)" in why.unblocked_by
    assert "Shapes that are tried, in this order: 2 x cheap (2 an hour), 2 x middle" in why.unblocked_by
    assert "is tried in about" in why.headline
    lab.aws.draw = lambda _operation: None
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED, within_s=DAY_S)


def test_pausing_gives_the_machines_back_and_resuming_rents_others() -> None:
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()
    lab.ready(run)
    lab.plane.pause(ADA, run.id)
    lab.check_over()
    assert lab.rentals(run)[0].end is RentalEnd.UNUSED
    lab.plane.resume(ADA, run.id)
    lab.complete(run)
    assert len(lab.rentals(run)) == 2
    lab.check_over()


def test_machines_whose_cluster_was_taken_down_are_given_back() -> None:
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()
    rental = lab.ready(run)
    with pytest.raises(Refused, match="is rented for a run"):
        lab.plane.clusters.remove(ADA, rental.cluster)
    lab.plane.clusters.forget(rental.cluster)
    lab.go_until(lambda: len(lab.rentals(run)) == 2)
    assert "its cluster was removed" in lab.rentals(run)[0].text
    lab.complete(run)
    lab.check_over()


def test_a_provider_cannot_go_while_anything_of_it_exists() -> None:
    lab = BurstLab()
    lab.grant(1000.0)
    run = lab.submit()
    lab.ready(run)
    with pytest.raises(Refused, match="stays while its machines exist"):
        lab.plane.burst.remove_provider(ADA, "aws")
    lab.plane.stop(ADA, run.id)
    lab.check_over()
    assert lab.plane.burst.remove_provider(ADA, "aws").name == "aws"
    assert lab.plane.burst.shapes(ADA) == []
