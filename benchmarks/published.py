"""What others published about the traces that are known, kept as data with where it comes from.

A set is known by the content of its file. `benchmarks.simulate` shows it beside our own figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tarmac.cli.views.simview import Published


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet:
    """A set of jobs that others measured on a cluster of `cluster`."""

    name: str
    cluster: str
    source: str
    lines: tuple[Published, ...]

    def line(self, policy: str) -> Published | None:
        """The line of a policy."""
        return next((line for line in self.lines if line.policy == policy), None)


REFERENCE = (
    "an event-driven simulation by slot count alone (no placement, no restart cost); EASY, SJF, SRTF and "
    "SRSF know durations, 2DLAS (two queues split at 8 slot-hours) does not"
)

_MURI = (
    "Muri (SIGCOMM 2022), results published with github.com/Rivendile/Muri, and " + REFERENCE + " (reference)"
)

PHILLY = PublishedSet(
    name="Philly, October and November 2017",
    cluster="64x8",
    source=f"jobs of Microsoft Philly (arXiv 1901.05758, CC-BY-4.0) as cleaned by the authors of Pollux; "
    f"{REFERENCE}",
    lines=(
        Published(policy="FIFO", completion_s=118_303, queueing_s=106_822),
        Published(policy="FIFO, smaller may pass", completion_s=39_889, queueing_s=28_409),
        Published(policy="EASY", completion_s=102_334, queueing_s=90_854),
        Published(policy="SJF", completion_s=18_515, queueing_s=7_035),
        Published(policy="SRTF", completion_s=13_108, queueing_s=1_628),
        Published(policy="SRSF", completion_s=12_372, queueing_s=891),
        Published(policy="2DLAS", completion_s=19_993, queueing_s=8_512),
    ),
)

MURI_1 = PublishedSet(
    name="Muri trace 1",
    cluster="8x8",
    source=_MURI,
    lines=(
        Published(policy="FIFO", completion_s=10.31e6),
        Published(policy="EASY", completion_s=7_103_458),
        Published(policy="SJF", completion_s=1_560_496),
        Published(policy="SRTF", completion_s=1_333_917),
        Published(policy="SRSF", completion_s=952_245),
        Published(policy="2DLAS", completion_s=4.55e6),
        Published(policy="SRTF (Muri)", completion_s=1_370_603, makespan_s=26.05e6, p99_s=16.65e6),
        Published(policy="SRSF (Muri)", completion_s=980_141, makespan_s=26.07e6, p99_s=15.53e6),
        Published(policy="Tiresias-L (Muri)", completion_s=3_330_371, makespan_s=23.56e6, p99_s=14.74e6),
        Published(policy="Themis (Muri)", completion_s=1_823_179, makespan_s=24.66e6, p99_s=17.16e6),
        Published(policy="AntMan (Muri)", completion_s=5_476_391, makespan_s=21.79e6, p99_s=13.69e6),
    ),
)

MURI_3 = PublishedSet(
    name="Muri trace 3",
    cluster="8x8",
    source=_MURI,
    lines=(
        Published(policy="FIFO", completion_s=0.991e6),
        Published(policy="EASY", completion_s=421_204),
        Published(policy="SJF", completion_s=262_107),
        Published(policy="SRTF", completion_s=180_116),
        Published(policy="SRSF", completion_s=172_684),
        Published(policy="2DLAS", completion_s=363_659),
        Published(policy="SRTF (Muri)", completion_s=193_082, makespan_s=8.174e6, p99_s=4.54e6),
        Published(policy="SRSF (Muri)", completion_s=185_022, makespan_s=8.174e6, p99_s=4.19e6),
        Published(policy="Tiresias-L (Muri)", completion_s=347_213, makespan_s=8.174e6, p99_s=4.98e6),
        Published(policy="Themis (Muri)", completion_s=397_059, makespan_s=8.172e6, p99_s=2.97e6),
        Published(policy="AntMan (Muri)", completion_s=305_454, makespan_s=8.174e6, p99_s=3.90e6),
    ),
)

MURI_400 = PublishedSet(
    name="Muri testbed 400",
    cluster="8x8",
    source=_MURI + "; those of Muri were measured on a real cluster",
    lines=(
        Published(policy="FIFO", completion_s=747_485),
        Published(policy="FIFO, smaller may pass", completion_s=428_066),
        Published(policy="EASY", completion_s=368_934),
        Published(policy="SJF", completion_s=279_097),
        Published(policy="SRTF", completion_s=219_557),
        Published(policy="SRSF", completion_s=215_287),
        Published(policy="2DLAS", completion_s=313_348),
        Published(policy="SRTF (Muri)", completion_s=249_140, makespan_s=4_156_633, p99_s=2_723_589),
        Published(policy="SRSF (Muri)", completion_s=238_612, makespan_s=4_223_122, p99_s=3_138_494),
        Published(policy="Tiresias-L (Muri)", completion_s=336_533, makespan_s=3_959_797, p99_s=2_812_808),
        Published(policy="Themis (Muri)", completion_s=461_456, makespan_s=3_924_819, p99_s=2_876_143),
    ),
)

SHOCKWAVE = PublishedSet(
    name="Shockwave 120",
    cluster="8x4",
    source="Shockwave (NSDI 2023), simulated, published with github.com/uw-mad-dash/shockwave (MIT), and "
    + REFERENCE
    + " (EASY)",
    lines=(
        Published(policy="EASY", completion_s=10_555, makespan_s=33_371, p99_s=22_057),
        Published(
            policy="Shockwave", completion_s=9_944, makespan_s=23_399, worst_fairness=1.50, unfair_share=0.042
        ),
        Published(
            policy="Themis", completion_s=11_021, makespan_s=31_449, worst_fairness=3.44, unfair_share=0.217
        ),
        Published(
            policy="Gavel max-min",
            completion_s=11_092,
            makespan_s=33_068,
            worst_fairness=2.92,
            unfair_share=0.25,
        ),
        Published(
            policy="AlloX", completion_s=9_802, makespan_s=32_369, worst_fairness=4.93, unfair_share=0.275
        ),
    ),
)

SETS: Mapping[str, PublishedSet] = {
    "ebffb3dd1589bdf4": PHILLY,
    "534d02a4ebe53aee": MURI_1,
    "fc8d59783486122d": MURI_3,
    "fe73b5e39c75ea73": MURI_400,
    "f5728b8c038c330d": SHOCKWAVE,
}
"""By the first characters of the SHA-256 of their file."""
