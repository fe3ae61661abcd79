"""Makes jobs by the model of Lublin and Feitelson, as a log in the Standard Workload Format.

Run with `python -m benchmarks.lublin FILE [SEED]`; `benchmarks.easy` plays it. The model (The workload on
parallel supercomputers, JPDC 63, 2003) draws sizes from two uniform distributions of their logarithm, many of
them powers of two; running times from two gamma distributions of their logarithm, where wide jobs more often
come from the longer one; and arrivals from a gamma distribution with a daily cycle. The parameters are those
published for jobs of all types. No job requests a time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import exp, lgamma, log, log2
from pathlib import Path
from random import Random

JOBS = 10_000
PROCESSORS = 256
SERIAL, POWER_OF_TWO = 0.244, 0.576
NARROWEST, NARROW = 0.8, 0.86
"""The logarithm of the least parallel size, and the share of sizes below an eighth to a fourth of all."""

SHORT, LONG = (4.2, 0.94), (312.0, 0.03)
SHORT_SHARE = (0.78, -0.0054)
"""The share of short jobs among narrow ones, and its change with each processor."""

ARRIVAL, DAY = (10.2303 * 1.0225, 0.4871), (8.1737, 3.9631)
LONGEST, LONGEST_GAP = 12.0, 13.0
"""Logarithms of seconds: two days, and five."""

STEPS = 48
STEP_S = 1_800.0
DAY_BEGINS = 22
"""The step of a day with which its cycle begins: eleven o'clock."""


def jobs(seed: int) -> Iterator[tuple[int, int, int]]:
    """The submission, running time and processors of each job."""
    random, at, weights = Random(seed), 0.0, _weights()
    for _ in range(JOBS):
        at = _later(at, exp(_below(random, LONGEST_GAP, *ARRIVAL)), weights)
        slots = _slots(random)
        short = random.random() <= SHORT_SHARE[0] + SHORT_SHARE[1] * slots
        ran_s = exp(_below(random, LONGEST, *(SHORT if short else LONG)))
        yield round(at), max(1, round(ran_s)), slots


def _slots(random: Random) -> int:
    kind, widest = random.random(), log2(PROCESSORS)
    if kind <= SERIAL:
        return 1
    narrow = random.random() <= NARROW
    size = random.uniform(*((NARROWEST, widest - 2.5) if narrow else (widest - 2.5, widest)))
    slots = 2 ** round(size) if kind <= SERIAL + POWER_OF_TWO else round(2**size)
    return int(min(PROCESSORS, slots))


def _below(random: Random, most: float, shape: float, scale: float) -> float:
    while (value := random.gammavariate(shape, scale)) > most:
        pass
    return value


def _weights() -> list[float]:
    """The rate of arrivals in each step of a day, one on average."""
    shape, scale = DAY
    weights = [0.0] * STEPS
    for step in range(DAY_BEGINS, DAY_BEGINS + STEPS):
        weights[step % STEPS] = exp(
            (shape - 1) * log(step) - step / scale - lgamma(shape) - shape * log(scale)
        )
    mean = sum(weights) / STEPS
    return [weight / mean for weight in weights]


def _later(at: float, gap_s: float, weights: list[float]) -> float:
    """The time of the next arrival: a gap passes the faster, the higher the rate of a step."""
    while True:
        rate, left_s = weights[int(at // STEP_S) % STEPS], STEP_S - at % STEP_S
        if gap_s <= left_s * rate:
            return at + gap_s / rate
        gap_s, at = gap_s - left_s * rate, at + left_s


def write(path: Path, seed: int) -> None:
    """Write a log."""
    lines = [f"; MaxProcs: {PROCESSORS}"]
    for number, (at, ran_s, slots) in enumerate(jobs(seed), 1):
        lines.append(f"{number} {at} -1 {ran_s} {slots} -1 -1 {slots} -1 -1 1 -1 -1 -1 -1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
