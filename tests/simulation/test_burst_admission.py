"""Runs on rented machines before anything is rented: refusals, approvals, and queues that rent."""

from __future__ import annotations

import pytest

from actors import ADA, member
from burst_labs import GPU, SHAPES, BurstLab
from simulated import spec
from tarmac.control.burst.market import BurstRules
from tarmac.control.service import Submission
from tarmac.model.burst.shapes import BurstRequest
from tarmac.model.codec import replace
from tarmac.model.errors import Forbidden, NeverFits, Refused
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.spec import Target

BOB = member("bob")


def test_no_approval_is_needed_where_the_settings_say_so() -> None:
    lab = BurstLab(rules=BurstRules(approval=False))
    run = lab.submit(approve=False)
    lab.ready(run)
    assert lab.rentals(run)[0].approved == ""


def test_an_approval_is_reserved_for_admins_where_the_settings_say_so() -> None:
    """I13."""
    lab = BurstLab(rules=BurstRules(admins_approve=True))
    run = lab.submit(BOB, approve=False)
    with pytest.raises(Forbidden, match="bob may not manage this server"):
        lab.plane.burst.approve(BOB, run.id)
    assert " approves it, by an admin." in lab.plane.why(BOB, run.id).unblocked_by
    assert lab.plane.burst.approve(ADA, run.id).approved == "ada"


def test_a_batch_run_rents_after_its_wait_and_other_runs_stay_off_its_machines() -> None:
    """Native: burst of a queue. The cluster is for this run alone."""
    lab = BurstLab()
    busy = lab.simulation.server.plane.submit(
        [Submission(spec=spec(slots=2), actor=ADA), Submission(spec=spec(slots=2), actor=ADA)]
    )
    waits = lab.plane.submit(
        [Submission(spec=spec(slots=2, burst=BurstRequest(wait_s=300.0, shapes=("cheap",))), actor=ADA)]
    )[0].run
    lab.go_on(290.0)
    assert lab.rentals() == []
    lab.go_until(lambda: lab.run(waits).state is RunState.RUNNING)
    assert lab.now() < 1_000_000.0 + 600.0
    attempt = lab.simulation.store.attempts(waits.id)[-1]
    assert attempt.allocation.cluster == f"burst-{waits.id}"
    assert lab.run(busy[1].run).state is RunState.QUEUED
    lab.complete(waits)


def test_a_batch_run_that_no_own_node_can_hold_waits_for_machines_that_it_may_rent() -> None:
    """Native: burst of a queue. It is refused only if no shape may be rented for it either."""
    lab = BurstLab()
    lab.grant(1000.0)
    wish = BurstRequest(wait_s=300.0, shapes=("cheap",))
    asked = spec(replicas=2, each=4, slot_type=GPU, burst=wish)
    dry = lab.plane.dry_run(Submission(spec=asked, actor=ADA))
    assert (dry.launch, bool(dry.reasons), [each.shape.id for each in dry.offers]) == (None, True, ["cheap"])
    run = lab.submit(mode=Mode.BATCH, approve=False, burst=wish)
    lab.go_on(290.0)
    assert (lab.run(run).state, lab.rentals()) == (RunState.QUEUED, [])
    why = lab.plane.why(ADA, run.id)
    assert why.headline == "queued: no node here can hold it, so it waits until machines are rented for it"
    assert (why.unblocked_by, [each.shape.id for each in why.offers]) == (
        "It rents machines in about 10 s, if it still waits then.",
        ["cheap"],
    )
    lab.go_until(lambda: lab.run(run).state is RunState.RUNNING)
    lab.complete(run)
    lab.check_over()
    with pytest.raises(NeverFits, match=r"can never start here: .* can rent nothing: .* limit of 0.5"):
        lab.submit(mode=Mode.BATCH, approve=False, burst=replace(wish, below=0.5))
    with pytest.raises(NeverFits, match=r"it can rent nothing: .* at most 48 GPUs, not 52"):
        lab.submit(mode=Mode.BATCH, approve=False, slots=52, burst=wish)


def test_a_burst_run_that_can_never_have_machines_is_refused_with_what_helps() -> None:
    lab = BurstLab()
    with pytest.raises(Refused, match="at most 48 GPUs, not 52"):
        lab.submit(slots=52)
    with pytest.raises(Refused, match="names cluster far"):
        lab.submit(target=Target(cluster="far"))
    with pytest.raises(NeverFits, match="no shape holds it: cheap: no number of these machines"):
        lab.plane.submit(
            [Submission(spec=spec(replicas=1, each=4, slot_type="H100", mode=Mode.BURST), actor=ADA)]
        )
    run = lab.submit()
    with pytest.raises(Refused, match="is rented for another run"):
        lab.submit(mode=Mode.BATCH, target=Target(cluster=f"burst-{run.id}"))
    with pytest.raises(Refused, match="needs no approval"):
        lab.plane.burst.approve(ADA, lab.submit(mode=Mode.BATCH, slots=0, approve=False).id)
    for each in SHAPES:
        lab.plane.burst.remove_shape(ADA, each.id)
    with pytest.raises(Refused, match="there are no shapes") as refusal:
        lab.submit()
    assert "tarmac providers add" in (refusal.value.hint or "")
