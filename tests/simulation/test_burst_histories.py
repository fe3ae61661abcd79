"""Seeded histories of burst runs, with faults and crashes: the books of the providers are the judge."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import pytest

from actors import ADA
from burst_histories import FAULTS, BurstHistory, Faults
from burst_labs import BurstLab
from ec2_histories import Ec2History
from examples import seeds
from fake_provider import CREATE, refused
from sim_engine import Behaviour
from simulated import Crash
from tarmac.model.burst.provider import Refusal
from tarmac.model.lifecycle import RunState

SEEDS_PER_CASE = 25
CASES = 20
PARTS = 6
ON_EC2 = 30
"""The histories on EC2 that `make test-engines` plays."""


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


def _played(history: BurstHistory, seed: int) -> Counter[str]:
    """What a history met; an error names its seed."""
    try:
        history.play()
    except AssertionError as error:
        raise AssertionError(f"history {seed}: {error}") from error
    return history.seen


def _missing(faults: Faults, others: Iterable[str], seen: Counter[str], *, least: int) -> list[str]:
    """The faults, and the other events, that were met less often."""
    named = [f"{operation} {what}" for operation, found in faults.items() for what in found]
    return [what for what in (*named, *others) if seen[what] < least]


@pytest.mark.seeded
@pytest.mark.parametrize("case", range(CASES))
def test_nothing_is_rented_twice_or_left_in_seeded_histories(case: int) -> None:
    """A fault may come at every call of the provider, a crash at every write: the books are the judge."""
    for seed in seeds(SEEDS_PER_CASE, case=case):
        _played(BurstHistory(seed), seed)


@pytest.mark.heavy
def test_the_histories_meet_every_fault() -> None:
    """The histories would prove little if they were tame."""
    seen = sum((_played(BurstHistory(seed), seed) for seed in range(40)), Counter())
    ends = [f"end {end}" for end in ("run_ended", "answer_lost", "half_gang", "reclaimed", "start_failed")]
    others = ["crashes", "a day down", "ten minutes down", "notices", "kills", "half gangs", "pause", "stop"]
    assert _missing(FAULTS, [*ends, *others], seen, least=5) == []
    assert seen["charged to the second"] > 0.8 * seen["machines"]


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_nothing_is_rented_twice_or_left_on_ec2() -> None:
    """The same histories through boto3, with faults at each call of EC2; the proxy's books are the judge.

    TARMAC_TEST_EC2_HISTORIES is their number: 500 take a quarter of an hour of processor time.
    """
    played = int(os.environ.get("TARMAC_TEST_EC2_HISTORIES", "0")) or ON_EC2
    seen = sum((_played(Ec2History(seed), seed) for seed in range(played)), Counter())
    ends = [f"end {end}" for end in ("run_ended", "answer_lost", "no_capacity", "quota", "reclaimed")]
    others = ["crashes", "a day down", "ten minutes down", "notices", "kills", "pause", "stop"]
    states = ["shown late", "shutting-down", "disks left", "addresses"]
    if played >= ON_EC2:
        assert _missing(Ec2History.faults, [*ends, *others, *states], seen, least=2) == []
    assert seen["charged to the second"] > 0.6 * seen["machines"]
