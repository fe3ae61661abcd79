"""Plays in which jobs rent machines, on jobs small enough to be worked out by hand."""

from __future__ import annotations

import pytest

from tarmac.model.cluster import Policy
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import Mode
from tarmac.simulator.jobs import Job
from tarmac.simulator.measures import measures
from tarmac.simulator.playing import EPOCH_S, Play, Rules
from tarmac.simulator.record import Record
from tarmac.simulator.renting import LOOK_S, read_rules
from tarmac.simulator.shapes import shape_of

HOUR_S = 3600.0
RULE = "when: wait > 1h, rate: 1/h, start_up: 10m"
RENTS_AT = HOUR_S + LOOK_S
BEGINS_AT = RENTS_AT + 600


def job(number: int, submitted_at: float, duration_s: float, slots: int, **more: object) -> Job:
    """A job of no user in particular."""
    made = {"id": f"{number:03}", "name": f"job{number}", **more}
    return Job(submitted_at=submitted_at, duration_s=duration_s, slots=slots, **made)


def played(jobs: list[Job], declaration: str | None, **rules: object) -> Record:
    """The record of a whole play on one node of four slots."""
    cluster = shape_of("1x4")
    assert cluster is not None
    burst = None if declaration is None else read_rules(declaration)
    record = Play(jobs, cluster, Rules(renting=burst, **rules)).run()
    assert record.complete
    return record


def times(record: Record) -> list[tuple[float | None, float | None]]:
    """When each job started and ended, counted from the beginning."""
    found = record.passages.values()
    return [tuple(None if at is None else at - EPOCH_S for at in (p.started_at, p.ended_at)) for p in found]


LONG = job(1, 0, 10 * HOUR_S, 4)


def test_a_job_that_waits_for_too_long_runs_on_rented_machines_for_its_duration() -> None:
    record = played([LONG, job(2, 0, 2 * HOUR_S, 4), job(3, 60, 100, 1)], RULE)
    ends_at = BEGINS_AT + 2 * HOUR_S
    assert times(record)[:2] == [(0, 10 * HOUR_S), (BEGINS_AT, ends_at)]
    found = measures(record, 4, renting=True)
    assert found.rentals is not None
    assert found.rentals.jobs == 2
    paid_s = 4 * (2 * HOUR_S + 600) + 1 * (100 + 600)
    assert found.rentals.cost == pytest.approx(paid_s / HOUR_S)
    assert found.rentals.machine_hours == pytest.approx(paid_s / HOUR_S), "a machine for each slot"
    assert found.ended == 3
    assert found.makespan_s == 10 * HOUR_S
    assert found.utilisation == 1.0, "rented slots are none of the cluster's"
    assert found.queueing_p99_s == pytest.approx(BEGINS_AT)


def test_a_job_that_starts_in_time_rents_nothing_and_the_play_ends_with_its_last_job() -> None:
    record = played([job(1, 0, 1000, 4), job(2, 0, 1000, 4)], RULE)
    assert times(record) == [(0, 1000), (1000, 2000)]
    found = measures(record, 4, renting=True)
    assert (found.rentals.jobs, found.makespan_s) == (0, 2000)


def test_the_play_lasts_as_long_as_its_last_rented_machine() -> None:
    record = played([job(1, 0, 2 * HOUR_S, 4), job(2, 0, 5 * HOUR_S, 4)], RULE)
    assert measures(record, 4).makespan_s == BEGINS_AT + 5 * HOUR_S
    assert record.ended == 2


def test_a_budget_is_never_exceeded_and_what_is_not_spent_is_free_again() -> None:
    """By their time limits both might cost 13 of 17; the first costs 5, so the third has 12 left."""
    jobs = [
        LONG,
        job(2, 0, HOUR_S, 4, limit_s=3 * HOUR_S),
        job(3, 60, HOUR_S, 4, limit_s=3 * HOUR_S),
        job(4, 4 * HOUR_S, HOUR_S, 2, limit_s=3 * HOUR_S),
    ]
    record = played(jobs, f"{RULE}, budget: 17")
    rented = [passage.rented is not None for passage in record.passages.values()]
    assert rented == [False, True, False, True]
    found = measures(record, 4, renting=True).rentals
    assert found is not None
    assert found.cost == pytest.approx(4 * (1 + 1 / 6) + 2 * (1 + 1 / 6))
    assert found.without_offer == 1


def test_jobs_above_the_rate_stay_in_the_queue() -> None:
    record = played([LONG, job(2, 0, HOUR_S, 4), job(3, 60, HOUR_S, 2)], f"{RULE}, below: 2/h")
    assert times(record)[1:] == [(10 * HOUR_S, 11 * HOUR_S), (60 + BEGINS_AT, 60 + BEGINS_AT + HOUR_S)]


def test_the_cheapest_shape_that_holds_the_job_is_rented() -> None:
    shapes = "[{id: big, slots: 8, rate: 10/h}, {id: two, slots: 2, rate: 3/h}]"
    record = played([LONG, job(2, 0, HOUR_S, 3), job(3, 0, HOUR_S, 4)], f"when: wait > 1h, shapes: {shapes}")
    rented = [p.rented for p in record.passages.values() if p.rented is not None]
    assert [(each.machines, each.rate) for each in rented] == [(2, 6.0), (2, 6.0)]
    wide = played(
        [LONG, job(2, 0, HOUR_S, 4), job(3, 0, HOUR_S, 4)],
        "when: wait > 1h, shapes: [{id: a, slots: 3, rate: 1/h}]",
    )
    assert {p.rented.machines for p in wide.passages.values() if p.rented is not None} == {2}


def test_a_preempted_job_keeps_its_work_and_waits_anew() -> None:
    """It ran for some time, was preempted, and does only the rest of its work on rented machines."""
    rule = "when: wait > 30m, rate: 1/h, start_up: 10m"
    jobs = [job(1, 0, 40_000, 4), job(2, 1_000, 30_000, 4)]
    record = played(jobs, rule, policy=Policy.LEAST_ATTAINED)
    passage = record.passages[1]
    assert (passage.preemptions, passage.failed) == (1, False)
    rented = passage.rented
    assert rented is not None
    rest_s = rented.ends_at - rented.begins_at
    assert 0 < rest_s < 30_000
    preempted_at = EPOCH_S + 1_000 + 30_000 - rest_s
    assert rented.rented_at == pytest.approx(preempted_at + 1800 + LOOK_S)
    assert passage.held_s == pytest.approx(30_000)


def test_a_time_limit_ends_a_job_on_rented_machines_too() -> None:
    record = played([LONG, job(2, 0, 3 * HOUR_S, 4, limit_s=HOUR_S)], RULE)
    assert times(record)[1] == (BEGINS_AT, BEGINS_AT + HOUR_S)
    assert record.passages[1].failed
    assert not record.passages[0].failed


def test_only_batch_jobs_rent() -> None:
    record = played([LONG, job(2, 0, HOUR_S, 4, mode=Mode.INTERRUPTIBLE)], RULE)
    assert record.passages[1].rented is None


def test_every_start_on_rented_machines_costs_the_restart_cost() -> None:
    record = played([LONG, job(2, 0, HOUR_S, 4)], RULE, restart_s=30.0)
    assert times(record)[1] == (BEGINS_AT, BEGINS_AT + HOUR_S + 30)


@pytest.mark.parametrize("policy", list(Policy))
def test_without_money_a_play_is_that_without_rentals(policy: Policy) -> None:
    jobs = [job(n, 600 * n, 3_000 + 700 * (n % 5), 1 + n % 4, user=f"u{n % 3}") for n in range(40)]
    plain, poor = (played(jobs, text, policy=policy) for text in (None, f"{RULE}, budget: 0.01"))
    assert times(plain) == times(poor)
    rich = played(jobs, RULE, policy=policy)
    assert rich.ended == 40
    assert measures(rich, 4).queueing_mean_s < measures(plain, 4).queueing_mean_s


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate: 1/h", "'when' is missing"),
        ("when: wait > 1h", "'rate' is missing"),
        (
            "when: wait > 1h, rate: 1/h, shapes: [{id: a, slots: 1, rate: 1/h}]",
            "cannot stand beside 'shapes'",
        ),
        ("when: wait > 1h, shapes: [{id: a, slots: 1}]", "shapes[0]: 'rate' is missing"),
        ("when: wait > 1h, shapes: []", "a list of mappings with id, slots and rate"),
        ("when: wait > 1h, rate: 1/h, budget: 0", "a number above 0"),
        ("when: wait > 1h, rates: 1/h", "unknown field 'rates' (did you mean 'rate'?)"),
        ("[a", "--burst"),
    ],
)
def test_a_declaration_is_refused_with_the_places_of_its_mistakes(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_rules(text)
    assert said in str(refused.value)
