"""What interruptible and cycle runs were promised holds however late everything is (I11, I12, I15)."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import inf

import pytest

from delayed import Delays
from examples import seeds
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Outcome

pytestmark = [pytest.mark.seeded, pytest.mark.xdist_group("promised time")]  # histories are played once

SEEDS = seeds(20)
PERIODS = 8
SLACK_S = 1e-3


@cache
def histories(*, wide: bool) -> list[tuple[int, Delays]]:
    """Seeded histories, each with its seed."""
    found = []
    for seed in SEEDS:
        history = Delays(seed, wide=wide)
        history.play(PERIODS)
        found.append((seed, history))
    return found


@pytest.mark.parametrize("wide", [False, True])
def test_i12_time_that_was_promised_is_shortened_by_a_cycle_run_alone(wide: bool) -> None:
    """From the start of its workers an attempt has the time it was told, whoever else is owed some."""
    told = 0
    for seed, history in histories(wide=wide):
        for run_id in history.shared:
            for stay in history.stays(run_id):
                attempt = stay.attempt
                if (
                    attempt.allotted_s is None
                    or attempt.leave_requested_at is None
                    or stay.gave_way_to is Mode.CYCLE
                ):
                    continue
                told += 1
                began = inf if attempt.started_at is None else attempt.started_at
                assert attempt.leave_requested_at - began >= attempt.allotted_s - SLACK_S, (seed, attempt)
    assert told > 5 * len(SEEDS), "the histories would prove little"


@pytest.mark.parametrize("wide", [False, True])
def test_i12_what_was_promised_and_not_had_is_credit_to_the_second(wide: bool) -> None:
    """Slow starts and slow ends are nobody's use of a block: what is owed is not less by them."""
    carried = 0
    for seed, history in histories(wide=wide):
        for run_id in history.shared:
            stays, shares = history.stays(run_id), history.shares[run_id]
            for old, new in pairwise(shares):
                had_s = sum(stay.served_s(old.period_at, new.period_at) for stay in stays)
                owed_s = min(history.rules.period_s, max(0.0, old.allotted_s + old.credit_s - had_s))
                carried += owed_s > 1.0
                assert new.credit_s >= owed_s - SLACK_S, (seed, run_id, old, new, had_s)
    assert carried > 1.5 * len(SEEDS), "the histories would prove little"


def test_i12_who_was_interrupted_is_the_first_to_come_back() -> None:
    """Also where the period ends in the meantime, and others have waited longer."""
    came_back = 0
    for seed, history in histories(wide=True):
        stays = sorted(
            (stay for run_id in (*history.shared, *history.cycles) for stay in history.stays(run_id)),
            key=lambda stay: stay.attempt.created_at,
        )
        cut = None
        for stay in stays:
            if stay.mode is Mode.CYCLE:
                continue
            if cut is not None:
                came_back += 1
                assert stay.attempt.run_id == cut, (seed, stay.attempt)
            cut = stay.attempt.run_id if stay.gave_way_to is Mode.CYCLE and history.is_cut(stay) else None
    assert came_back > len(SEEDS), "the histories would prove little"


def test_i11_every_cycle_run_is_judged_by_its_turns_however_late_they_begin_and_end() -> None:
    judged = 0
    for seed, history in histories(wide=False):
        for run_id in history.cycles:
            run = history.simulation.store.run(run_id)
            assert (run.outcome, run.turns) == (Outcome.COMPLETED, 2), (seed, run)
            assert run.cycle_report is not None
            assert run.cycle_report.proven, (seed, run)
            judged += 1
            for stay in history.stays(run_id):
                attempt = stay.attempt
                assert attempt.leave_requested_at - attempt.started_at >= history.rules.turn_s - SLACK_S
    assert judged > 1.5 * len(SEEDS), "the histories would prove little"
