"""Seeded histories of burst runs, with faults and crashes: the books of the providers are the judge."""

from __future__ import annotations

from collections import Counter

import pytest

from actors import ADA
from burst_histories import FAULTS, BurstHistory
from burst_labs import BurstLab
from examples import seeds
from fake_provider import CREATE, refused
from sim_engine import Behaviour
from simulated import Crash
from tarmac.model.burst.provider import Refusal
from tarmac.model.lifecycle import RunState

SEEDS_PER_CASE = 25
CASES = 20
PARTS = 6


def _life(crash_at: int | None) -> tuple[BurstLab, int]:
    """Approve, meet a refusal, rent, train, lose a machine, rent again, end; the server dies at one write."""
    passed = 0
    lab = BurstLab(behaviour=lambda _launch: Behaviour(duration_s=200.0, checkpoint_period_s=10.0))
    lab.grant(1000.0)
    run = lab.submit(approve=False)

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == crash_at:
            raise Crash

    lab.aws.faults[CREATE].append(refused(Refusal.NO_CAPACITY))
    lab.simulation.engine.interrupt = lab.simulation.store.interrupt = point
    while not lab.simulation.survive(lambda: lab.plane.burst.approve(ADA, run.id)):
        pass
    lab.go_until(lambda: lab.run(run).state is RunState.RUNNING)
    lab.go_on(60.0)
    lab.aws.notice(lab.machines(lab.rentals(run)[-1])[0].id)
    lab.go_until(lambda: lab.run(run).state is RunState.ENDED)
    lab.check_over()
    assert all(count == 1 for count in lab.simulation.engine.starts.values())
    return lab, passed


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_each_durable_write_in_turn(part: int) -> None:
    _, points = _life(None)
    assert points > 40
    for crash_at in range(1 + part, points + 1, PARTS):
        lab, _ = _life(crash_at)
        assert lab.simulation.crashes == 1


@pytest.mark.seeded
@pytest.mark.parametrize("case", range(CASES))
def test_nothing_is_rented_twice_or_left_in_seeded_histories(case: int) -> None:
    """A fault may come at every call of the provider, a crash at every write: the books are the judge."""
    for seed in seeds(SEEDS_PER_CASE, case=case):
        try:
            BurstHistory(seed).play()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error


@pytest.mark.heavy
def test_the_histories_meet_every_fault() -> None:
    """The histories would prove little if they were tame."""
    seen = Counter[str]()
    for seed in range(40):
        history = BurstHistory(seed)
        history.play()
        seen += history.seen
    faults = [f"{operation} {what}" for operation, found in FAULTS.items() for what in found]
    ends = [f"end {end}" for end in ("run_ended", "answer_lost", "half_gang", "reclaimed", "start_failed")]
    others = ["crashes", "a day down", "ten minutes down", "notices", "kills", "half gangs", "pause", "stop"]
    assert [what for what in (*faults, *ends, *others) if seen[what] < 5] == []
    assert seen["charged to the second"] > 0.8 * seen["machines"]
