"""`priority` beside EASY backfill with the same knowledge, on traces: mean completion and its ratio.

Run with `python -m benchmarks.easy FILE... [--cluster 32x8]`. Each trace is played with its own time
limits, if any, with true ones and with 1.5 times these. Ends with 1 if `priority` is worse anywhere.

EASY here counts slots alone: first come, first served; the first job that does not fit has a reservation at
the time when enough others have ended by their limits (those without a limit later, in the order of their
starts); any later job starts if it ends by then, or needs no more than what the first leaves free.
"""

from __future__ import annotations

import argparse
import heapq
import os
from collections.abc import Sequence
from math import inf
from statistics import fmean

from tarmac.simulator.comparing import Setting, play_all
from tarmac.simulator.jobs import Job
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import shape_of, slots_of
from tarmac.simulator.traces import read_trace

KNOWLEDGE = {"as it is": None, "true limits": 1.0, "limits 1.5": 1.5}


def easy(jobs: Sequence[Job], slots: int, rules: Rules) -> float:
    """The mean completion time of these jobs under EASY, with the time limits of these rules."""
    limits = [rules.limit_of(job) or inf for job in jobs]
    running: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    queue: list[int] = []
    completion_s, free, arriving, now = [0.0] * len(jobs), slots, 0, 0.0

    def start(number: int) -> None:
        nonlocal free
        free -= jobs[number].slots
        running[number] = now + limits[number]
        heapq.heappush(ends, (now + jobs[number].duration_s, number))

    while arriving < len(jobs) or ends:
        arrival = jobs[arriving].submitted_at if arriving < len(jobs) else inf
        now = min(arrival, ends[0][0] if ends else inf)
        while ends and ends[0][0] <= now:
            number = heapq.heappop(ends)[1]
            completion_s[number] = now - jobs[number].submitted_at
            free += jobs[number].slots
            del running[number]
        while arriving < len(jobs) and jobs[arriving].submitted_at <= now:
            queue.append(arriving)
            arriving += 1
        while queue and jobs[queue[0]].slots <= free:
            start(queue.pop(0))
        if not queue or not free:
            continue
        begins, room = inf, free - jobs[queue[0]].slots
        for number in sorted(running, key=running.__getitem__):  # stable: in the order of their starts
            begins, room = max(now, running[number]), room + jobs[number].slots
            if room >= 0:
                break
        left = queue[:1]
        for number in queue[1:]:
            in_time = now + limits[number] <= begins < inf
            if jobs[number].slots > free or not (in_time or jobs[number].slots <= room):
                left.append(number)
                continue
            room -= 0 if in_time else jobs[number].slots
            start(number)
        queue = left
    return fmean(completion_s)


def main() -> int:
    """Play, print, judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--cluster")
    chosen = parser.parse_args()
    settings = []
    for path in chosen.traces:
        trace = read_trace(path)
        cluster = shape_of(chosen.cluster or trace.cluster or "")
        assert cluster is not None, f"{path}: name a --cluster, such as 64x8"
        for label, factor in KNOWLEDGE.items():
            rules = Rules(limit_factor=factor)
            settings.append(Setting(label=label, trace=trace, cluster=cluster, rules=rules))
    worst = 0.0
    results = play_all(settings, workers=min(2, len(os.sched_getaffinity(0))), progress=lambda *_: None)
    for setting, result in zip(settings, results, strict=True):
        slots = slots_of(setting.cluster)
        fitting = [job for job in setting.trace.jobs if job.slots <= slots]
        reference_s = easy(fitting, slots, setting.rules)
        mean_s = result.measures.completion_mean_s or inf
        worst = max(worst, mean_s / reference_s)
        print(
            f"{setting.trace.name:<20} {setting.label:<15} EASY {reference_s:>12,.0f}"
            f"  priority {mean_s:>12,.0f}  {mean_s / reference_s:.2f}",
            flush=True,
        )
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
