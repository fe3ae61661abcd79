"""Plays on traces, audited by what they wrote: slots, work, order and every job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks import lublin
from benchmarks.audit import RULES, Played, faults, play

from examples import FULL
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.simulator.jobs import Job
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import shape_of
from tarmac.simulator.traces import read_trace

TESTS = Path(__file__).parents[2]
DATA = TESTS / "data" / "traces"
TRACES = {
    str(DATA / "philly_excerpt.csv"): "8x8",
    str(DATA / "muri_excerpt.csv"): "4x8",
    str(DATA / "shockwave_excerpt.trace"): "2x4",
    str(TESTS.parent / "benchmarks" / "interruptible_72.csv"): "12x6",
}
FIRST = 30
"""Jobs of each trace that `make test` plays."""


def cluster(shape: str) -> Cluster:
    """A cluster of a shape."""
    made = shape_of(shape)
    assert made is not None
    return made


def sets() -> Iterator[tuple[str, str]]:
    """The traces with their clusters; all of a directory if TARMAC_TEST_TRACES names one."""
    yield from TRACES.items()
    directory = os.environ.get("TARMAC_TEST_TRACES")
    for path in sorted(Path(directory).iterdir()) if directory is not None and FULL else ():
        if path.suffix != ".md":
            yield str(path), read_trace(str(path)).cluster or "8x8"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 10,000 jobs on 256 processors."""
    path = tmp_path_factory.mktemp("log") / "log.swf"
    lublin.write(path, 1)
    return path


@pytest.mark.parametrize("label", RULES)
@pytest.mark.parametrize(("file", "shape"), list(sets()), ids=lambda value: Path(value).stem)
def test_every_play_gives_each_job_its_slots_and_its_time(file: str, shape: str, label: str) -> None:
    jobs = read_trace(file).jobs
    assert faults(play(jobs if FULL else jobs[:FIRST], cluster(shape), RULES[label])) == []


@pytest.mark.parametrize("label", RULES)
def test_every_play_of_a_log_in_the_standard_workload_format_does(log: Path, label: str) -> None:
    jobs = read_trace(str(log)).jobs
    assert faults(play(jobs if FULL else jobs[: 5 * FIRST], cluster("32x8"), RULES[label])) == []


def shorter(found: Played) -> None:
    """One job works a second less."""
    last = found.attempts[0][-1]
    assert last.ended_at is not None
    found.attempts[0][-1] = replace(last, ended_at=last.ended_at - 1.0)


def early(found: Played) -> None:
    """One job begins before it is submitted."""
    first = found.attempts[1][0]
    found.attempts[1][0] = replace(
        first, created_at=first.created_at - 1e6, started_at=first.created_at - 1e6
    )


def partial(found: Played) -> None:
    """One gang of two starts with one of its slots alone."""
    first = found.attempts[0][0]
    placements = tuple(replace(each, slots=each.slots[:1]) for each in first.allocation.placements)
    found.attempts[0][0] = replace(first, allocation=replace(first.allocation, placements=placements))


def shared(found: Played) -> None:
    """One job is on the slots of another at the same time."""
    found.attempts[1][0] = replace(found.attempts[1][0], allocation=found.attempts[0][0].allocation)


def outside(found: Played) -> None:
    """One job is on a slot that its node does not have."""
    first = found.attempts[0][0]
    placements = tuple(replace(each, slots=(2, 3)) for each in first.allocation.placements)
    found.attempts[0][0] = replace(first, allocation=replace(first.allocation, placements=placements))


def lost(found: Played) -> None:
    """One run never ended."""
    found.runs[0] = replace(found.runs[0], state=RunState.QUEUED)


def never_run(found: Played) -> None:
    """One run ended without an attempt."""
    found.attempts[0].clear()


def miscounted(found: Played) -> None:
    """The simulator counts a preemption that did not happen."""
    found.record.passages[0].preemptions += 1


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (shorter, "worked 99.0 s of 100.0 s"),
        (early, "before its submission"),
        (partial, "did not hold all of its slots"),
        (shared, "was held by"),
        (outside, "has no slot 3"),
        (lost, "was lost"),
        (never_run, "is None after 0.0 s"),
        (miscounted, "recorded otherwise"),
    ],
)
def test_the_audit_sees_what_is_wrong(spoil: Callable[[Played], None], told: str) -> None:
    jobs = [
        Job(id=str(number), name="", submitted_at=number, duration_s=100.0, slots=2) for number in range(3)
    ]
    found = play(jobs, cluster("2x2"), Rules())
    assert not faults(found)
    spoil(found)
    assert any(told in line for line in faults(found)), faults(found)
