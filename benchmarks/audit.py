"""Checks a play against its trace, by the attempts that it wrote into its store.

Run with `python -m benchmarks.audit FILE... [--cluster 32x8]`. Each trace is played under every policy, as it
is, and with time limits and a cost of restarts. Prints a line per play with its faults; ends with 1 if any
is found. The audit shares no code with `simulator.record`, and compares its own figures with the record's.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, isclose
from types import MappingProxyType

from tarmac.model.actor import Lease
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.cluster import Cluster, Policy
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Attempt, Run
from tarmac.simulator.jobs import Job
from tarmac.simulator.play_store import PlayStore
from tarmac.simulator.playing import EPOCH_S, Play, Rules
from tarmac.simulator.record import Record
from tarmac.simulator.shapes import shape_of, slots_of
from tarmac.simulator.traces import read_trace

SAME_S = 1e-3
"""Sums of times that differ by less are equal: virtual time has a resolution of less than a microsecond."""

LEAST_LIMIT_S = 1.0
"""What an attempt is given that has nothing left of its time limit."""

RULES: Mapping[str, Rules] = MappingProxyType(
    {policy.value: Rules(policy=policy) for policy in Policy}
    | {
        f"{policy.value}, restarts, limits": Rules(policy=policy, restart_s=30.0, limit_factor=1.5)
        for policy in Policy
    }
)


class RecordingStore(PlayStore):
    """A store that remembers everything that a play writes, although the play forgets what has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, Run] = {}
        self.attempts_of: dict[str, dict[int, Attempt]] = defaultdict(dict)

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        created = super().create_runs(new)
        self.written |= {run.id: run for run in created}
        return created

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        taken = super().apply(steps, lease=lease, whole=whole)
        for step, is_taken in zip(steps, taken, strict=True):
            if is_taken:
                self.written[step.after.id] = step.after
            if is_taken and step.attempt is not None:
                self.attempts_of[step.after.id][step.attempt.number] = step.attempt
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A play: its input, the run and the attempts of each job that fits, and the simulator's own record."""

    jobs: Sequence[Job]
    cluster: Cluster
    rules: Rules
    runs: dict[int, Run]
    attempts: dict[int, list[Attempt]]
    record: Record


def play(jobs: Sequence[Job], cluster: Cluster, rules: Rules) -> Played:
    """Play these jobs. Runs are made in the order of the trace, one for each job that is not too large."""
    store = RecordingStore()
    record = Play(jobs, cluster, rules, store).run()
    fitting = (number for number, job in enumerate(jobs) if job.slots <= slots_of(cluster))
    runs = dict(zip(fitting, store.written.values(), strict=False))
    attempts = {number: [*store.attempts_of[run.id].values()] for number, run in runs.items()}
    return Played(jobs=jobs, cluster=cluster, rules=rules, runs=runs, attempts=attempts, record=record)


def faults(played: Played) -> list[str]:
    """What is wrong with a play, in sentences."""
    shift_s = 0.0 if played.jobs[0].submitted_at >= EPOCH_S / 2 else EPOCH_S
    found: list[str] = []
    for number, attempts in played.attempts.items():
        job = played.jobs[number]
        found += run_faults(job, played.runs[number], attempts, shift_s)
        found += service_faults(job, attempts, played.rules)
    found += slot_faults((one for each in played.attempts.values() for one in each), played.cluster)
    return [*found, *record_faults(played)]


def run_faults(job: Job, run: Run, attempts: Sequence[Attempt], shift_s: float) -> Iterator[str]:
    """A run that is not that of its job, that started before its submission or has not ended."""
    submitted_at = job.submitted_at + shift_s
    if run.spec.name != job.name or run.created_at != submitted_at:
        yield f"job {job.id}: its run {run.id} has another name or time of submission"
    if any(attempt.created_at < submitted_at for attempt in attempts):
        yield f"job {job.id}: it held slots before its submission"
    if run.state is not RunState.ENDED:
        yield f"job {job.id}: its run was lost: it is {run.state}"


def service_faults(job: Job, attempts: Sequence[Attempt], rules: Rules) -> Iterator[str]:
    """Starts that are too early, together or not with all slots, and more or less work than the job has."""
    worked_s, limit_s = 0.0, rules.limit_of(job)
    for attempt in attempts:
        starts_at, ends_at = attempt.started_at, attempt.ended_at
        if starts_at is None or ends_at is None or not attempt.created_at <= starts_at <= ends_at:
            yield f"job {job.id}: attempt {attempt.number} has no start or no end, or these in another order"
            continue
        if not isclose(starts_at - attempt.created_at, rules.restart_s, abs_tol=SAME_S):
            yield f"job {job.id}: attempt {attempt.number} did not pay the cost of a restart"
        if attempt.allocation.slots != job.slots or attempt.released:
            yield f"job {job.id}: attempt {attempt.number} did not hold all of its slots from start to end"
        worked_s += ends_at - starts_at
    for before, after in pairwise(attempts):
        if before.ended_at is None or after.created_at < before.ended_at:
            yield f"job {job.id}: attempt {after.number} began before the one before it had ended"
        if before.outcome is not Outcome.PREEMPTED:
            yield f"job {job.id}: attempt {before.number} was not the last, and is {before.outcome}"
    outcome = attempts[-1].outcome if attempts else None
    if outcome is Outcome.COMPLETED and not isclose(worked_s, job.duration_s, abs_tol=SAME_S):
        yield f"job {job.id}: it worked {worked_s} s of {job.duration_s} s"
    late_s = LEAST_LIMIT_S * len(attempts)
    at_limit = limit_s is not None and limit_s - SAME_S <= worked_s <= min(limit_s + late_s, job.duration_s)
    if outcome is not Outcome.COMPLETED and not at_limit:
        yield f"job {job.id}: it is {outcome} after {worked_s} s, with a time limit of {limit_s} s"


def slot_faults(attempts: Iterable[Attempt], cluster: Cluster) -> Iterator[str]:
    """Slots that a node does not have, and slots that two attempts held at one moment."""
    held: dict[tuple[str, int], list[tuple[float, float, str]]] = defaultdict(list)
    for attempt in attempts:
        ends_at = attempt.created_at if attempt.ended_at is None else attempt.ended_at
        for placement in attempt.allocation.placements:
            for slot in placement.slots:
                held[placement.node, slot].append((attempt.created_at, ends_at, attempt.id))
    nodes = sum(group.nodes for group in cluster.groups)
    if len({node for node, _ in held}) > nodes or len(held) > slots_of(cluster):
        yield f"{len(held)} slots of {len({node for node, _ in held})} nodes were used"
    most = max(group.slots for group in cluster.groups)
    yield from (f"{node} has no slot {slot}" for node, slot in held if not 0 <= slot < most)
    for (node, slot), uses in held.items():
        for before, after in pairwise(sorted(uses)):
            if after[0] < before[1]:
                yield f"slot {slot} of {node} was held by {before[2]} until {before[1]}, by {after[2]} before"


def record_faults(played: Played) -> Iterator[str]:
    """Figures of the simulator that are not those of the attempts."""
    record, held_slot_s = played.record, []
    if record.never_fits.keys() | played.attempts.keys() != set(range(len(played.jobs))):
        yield "a job neither ran nor is named as one that never fits"
    for number, attempts in played.attempts.items():
        if not attempts:  # reported already: it ended without any work
            continue
        job, passage, last = played.jobs[number], record.passages[number], attempts[-1]
        held_s = fsum((each.ended_at or 0.0) - each.created_at for each in attempts)
        held_slot_s.append(held_s * job.slots)
        preemptions = sum(each.outcome is Outcome.PREEMPTED for each in attempts)
        figures = (attempts[0].started_at, last.ended_at, preemptions, last.outcome is Outcome.FAILED)
        if figures != (passage.started_at, passage.ended_at, passage.preemptions, passage.failed):
            yield f"job {job.id}: its start, end, outcome or number of preemptions is recorded otherwise"
        if not isclose(held_s, passage.held_s, abs_tol=SAME_S):
            yield f"job {job.id}: it held its slots for {held_s} s, not for {passage.held_s} s"
    steps = zip(pairwise(record.times), record.busy_slots, strict=False)
    used_slot_s = fsum((after - at) * used for (at, after), used in steps)
    if not isclose(used_slot_s, fsum(held_slot_s), rel_tol=1e-9, abs_tol=1.0):
        yield f"{used_slot_s} slot-seconds are recorded, and the attempts have {fsum(held_slot_s)}"
    if max(record.busy_slots) > slots_of(played.cluster):
        yield f"{max(record.busy_slots)} slots are recorded to be in use at once"


def main() -> int:
    """Play, audit, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--cluster")
    chosen = parser.parse_args()
    wrong = 0
    for path in chosen.traces:
        trace = read_trace(path)
        cluster = shape_of(chosen.cluster or trace.cluster or "")
        assert cluster is not None, f"{path}: name a --cluster, such as 64x8"
        for label, rules in RULES.items():
            found = faults(play(trace.jobs, cluster, rules))
            wrong += len(found)
            result = "\n  ".join([f"{len(found)} faults:", *found[:20]]) if found else "nothing wrong"
            print(f"{trace.name:<20} {label:<34} {len(trace.jobs):>7,} jobs: {result}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
