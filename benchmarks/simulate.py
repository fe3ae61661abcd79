"""What the scheduler's policies come to on the published traces, and how long a simulation takes.

Run with `python -m benchmarks.simulate DIRECTORY [--quick]`, where the traces lie (their names do not matter,
sets are known by content). Prints the time of Philly against its budget, all policies on all sets
beside what was published, and every target that is missed, and then ends with 1. `--quick`: without Philly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.published import PHILLY, SETS, SHOCKWAVE, PublishedSet
from tarmac.cli.views.simview import wide_table
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import Cluster, Policy
from tarmac.model.codec import replace
from tarmac.simulator.comparing import Result, Setting, play, play_all
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import shape_of
from tarmac.simulator.traces import read_trace

PHILLY_BUDGET_S = 30.0
LIMITS = 1.5
"""User time limits, as a multiple of the true duration."""

SRSF_FACTOR = 1.3
FAIRNESS = 2.0
SHARING_FACTOR = 2.0

INTERRUPTIBLE = Path(__file__).with_name("interruptible_72.csv")

PLAYS: Mapping[str, Rules] = {
    "priority": Rules(policy=Policy.PRIORITY),
    "priority, limits 1.5": Rules(policy=Policy.PRIORITY, limit_factor=LIMITS),
    "fair_share": Rules(policy=Policy.FAIR_SHARE),
    "least_attained": Rules(policy=Policy.LEAST_ATTAINED),
    "least_attained, limits 1.5": Rules(policy=Policy.LEAST_ATTAINED, limit_factor=LIMITS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promise: the figure, and what it has to stay at or below."""

    what: str
    value: float
    bound: float

    @property
    def kept(self) -> bool:
        """Whether it is."""
        return self.value <= self.bound


def main() -> int:
    """Measure, print, judge."""
    directory, quick = Path(sys.argv[1]), "--quick" in sys.argv
    traces = [read_trace(str(path)) for path in sorted(directory.iterdir()) if path.suffix != ".md"]
    settings = [
        Setting(label=label, trace=trace, cluster=_cluster(SETS[trace.digest]), rules=rules)
        for trace in traces
        if trace.digest in SETS and not (quick and SETS[trace.digest] is PHILLY)
        for label, rules in PLAYS.items()
    ]
    targets = []
    for setting in settings:
        if SETS[setting.trace.digest] is PHILLY and setting.label == "priority":
            alone = play(setting)
            targets.append(
                Target(what="Philly, one policy, seconds", value=alone.wall_s, bound=PHILLY_BUDGET_S)
            )
    targets += _sharing()
    results = play_all(settings, workers=len(os.sched_getaffinity(0)), progress=_told)
    played = list(zip(settings, results, strict=True))
    print("\r\x1b[K" if sys.stderr.isatty() else "", end="", file=sys.stderr)
    print(wide_table(played, lambda setting: SETS[setting.trace.digest].lines, Terminal()))
    for trace in traces:
        if trace.digest in SETS:
            print(f"{trace.name}, published: {SETS[trace.digest].source}")
    targets += _targets(played)
    print("\n" + "\n".join(_line(target) for target in targets))
    return 0 if all(target.kept for target in targets) else 1


def _targets(played: Sequence[tuple[Setting, Result]]) -> Iterator[Target]:
    for setting, result in played:
        known, of = SETS[setting.trace.digest], result.measures
        mean_s = of.completion_mean_s if of.completion_mean_s is not None else float("inf")
        what = f"{setting.trace.name}, {setting.label}"
        if setting.label == "least_attained" and (las := known.line("2DLAS")):
            yield Target(what=f"{what}: completion, 2DLAS", value=mean_s, bound=las.completion_s)
        if setting.label == "least_attained, limits 1.5" and (srsf := known.line("SRSF")):
            bound = SRSF_FACTOR * srsf.completion_s
            yield Target(what=f"{what}: completion, {SRSF_FACTOR} x SRSF", value=mean_s, bound=bound)
        if setting.label == "fair_share" and known is SHOCKWAVE:
            worst = of.fairness.worst if of.fairness.worst is not None else float("inf")
            yield Target(what=f"{what}: worst finish-time fairness", value=worst, bound=FAIRNESS)
        if setting.rules.policy is Policy.PRIORITY and (easy := known.line("EASY")):
            yield Target(what=f"{what}: completion, EASY", value=mean_s, bound=easy.completion_s)


def _sharing() -> Iterator[Target]:
    """Interruptible runs on 72 slots, against their blocks one at a time, and what was promised to each."""
    trace = read_trace(str(INTERRUPTIBLE))
    shape = shape_of("12x6")
    assert shape is not None
    setting = Setting(label="interruptible", trace=trace, cluster=shape, rules=Rules(policy=Policy.PRIORITY))
    of = play(setting).measures
    assert of.promises is not None, "nothing was promised"
    bound = of.utilisation / SHARING_FACTOR
    what = "interruptible on 12x6: utilisation one block at a time, half of what is reached side by side"
    yield Target(what=what, value=of.promises.one_at_a_time, bound=bound)
    broken = of.promises.granted - of.promises.kept
    yield Target(what=f"... promises broken, of {of.promises.granted}", value=broken, bound=0)


def _cluster(known: PublishedSet) -> Cluster:
    shape = shape_of(known.cluster)
    assert shape is not None, known.cluster
    return replace(shape, name="benchmark")


def _line(target: Target) -> str:
    word = "kept" if target.kept else "MISSED"
    return f"{word:<7}{target.what}: {target.value:,.2f}, to be at most {target.bound:,.2f}"


def _told(ended: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{ended:,} of {of:,} jobs", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
