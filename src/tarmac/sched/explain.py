"""`explain`: what becomes of one run and why, with every node's reason. Called by `control` for `tarmac why`.

It is the pass itself, stopped at the run in question: what it tells is what `plan` would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from tarmac.model.cluster import NodeState
from tarmac.sched.admission import largest
from tarmac.sched.deciding import Kind, Pass
from tarmac.sched.decisions import Placement, Refusal, Waiting
from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.forecast import Forecast
from tarmac.sched.order import by_priority

NAMES_SHOWN = 4
"""A sentence names at most so many runs or nodes."""


def explain(snapshot: Snapshot, run_id: str, now: float) -> Waiting | Refusal | Placement:
    """What the next pass decides for this queued run; raises KeyError if it is not in the queue."""
    current = Pass(snapshot, now)
    before: list[Kind] = []
    for candidate in by_priority(snapshot.queue):
        decision = current.decide(candidate)
        if candidate.run_id == run_id:
            return decision or _waiting(_Case(snapshot, current, candidate, now), before)
        if decision is None:
            before.append(current.kind(candidate))
    raise KeyError(run_id)


class _Case:
    """One waiting run, and what may be asked about it."""

    def __init__(self, snapshot: Snapshot, current: Pass, candidate: Candidate, now: float) -> None:
        self.snapshot = snapshot
        self.current = current
        self.candidate = candidate
        self.kind = current.kind(candidate)
        self.now = now


def _waiting(case: _Case, before: Sequence[Kind]) -> Waiting:
    return Waiting(
        run_id=case.candidate.run_id,
        seq=case.candidate.seq,
        ahead=sum(not set(case.kind.pools).isdisjoint(other.pools) for other in before),
        reasons=case.current.reasons(case.kind, run_id=case.candidate.run_id),
        unblocked_by=" ".join(_ways_out(case)),
    )


def _ways_out(case: _Case) -> Iterator[str]:
    """Sentences on what would let it start: what it waits for first, then what a person could do."""
    yield _awaited(case)
    if nodes := _undrained(case):
        yield f"It would start at once after `tarmac nodes undrain {' '.join(nodes)}`."
    for constraint, relaxed in _relaxations(case.candidate):
        if case.current.starts_now(relaxed):
            yield f"Without {constraint} it would start at once."
    less = largest(
        case.kind.demands,
        lambda demands: case.current.starts_now(replace(case.candidate, demands=demands)),
    )
    if less:
        yield f"With {less} it would start at once."


def _awaited(case: _Case) -> str:
    """What the run waits for when nobody does anything."""
    forecasts = [forecast for _, forecast in case.current.forecasts(case.kind, case.kind.pools)]
    if not forecasts:
        if case.current.admission.silent(case.kind.target):
            return "It starts when its cluster reports nodes that take it."
        return "It starts when enough of the nodes above take work again."
    keepers = sorted(
        keeping.run_id
        for pool in case.kind.pools
        if (keeping := case.current.keepings.get(pool.key)) and keeping.run_id != case.candidate.run_id
    )
    soonest = min(forecasts, key=lambda forecast: (forecast.at, len(forecast.awaited)))
    if not soonest.awaited:
        return f"It starts after {_some(keepers)}, for which nodes are kept."
    sentence = f"It starts when {_ends(soonest, case.now)}"
    return sentence + (f", and after {_some(keepers)}, for which nodes are kept." if keepers else ".")


def _ends(forecast: Forecast, now: float) -> str:
    runs = [release.holding.candidate.run_id for release in forecast.awaited]
    ended = f"{_some(runs)} {'has' if len(runs) == 1 else 'have'} ended"
    if forecast.at == inf:
        return ended
    return f"{ended}, in {_duration(forecast.at - now)} at the latest" if forecast.at > now else ended


def _undrained(case: _Case) -> list[str]:
    """The drained nodes that it would start on if they took work."""
    drained = {node.name for node in case.snapshot.nodes if node.state is NodeState.DRAINED}
    if not drained:
        return []
    nodes = tuple(
        replace(node, state=NodeState.UP) if node.name in drained else node for node in case.snapshot.nodes
    )
    other = Pass(replace(case.snapshot, nodes=nodes), case.now)
    for candidate in by_priority(case.snapshot.queue):
        decision = other.decide(candidate)
        if candidate.run_id == case.candidate.run_id:
            placed = decision.allocation.nodes if isinstance(decision, Placement) else ()
            return [name for name in placed if name in drained]
    return []


def _relaxations(candidate: Candidate) -> Iterator[tuple[str, Candidate]]:
    """The run less one of its constraints, with that constraint in words."""
    target = candidate.target
    if target.hostnames:
        yield "its host names", replace(candidate, target=replace(target, hostnames=()))
    if target.shard is not None:
        yield f"shard {target.shard!r}", replace(candidate, target=replace(target, shard=None))
    if target.pool is not None:
        yield f"pool {target.pool!r}", replace(candidate, target=replace(target, pool=None))
    types = sorted({demand.each.slot_type for demand in candidate.demands if demand.each.slot_type})
    if types:
        any_type = tuple(
            replace(demand, each=replace(demand.each, slot_type=None)) for demand in candidate.demands
        )
        yield f"slot type {' and '.join(types)}", replace(candidate, demands=any_type)


def _some(names: Sequence[str]) -> str:
    """`run a`, `runs a and b`, `runs a, b, c, d and 7 others`."""
    if len(names) == 1:
        return f"run {names[0]}"
    shown = list(names[:NAMES_SHOWN])
    rest = len(names) - len(shown)
    last = f"{rest} other{'s' if rest > 1 else ''}" if rest else shown.pop()
    return f"runs {', '.join(shown)} and {last}"


def _duration(seconds: float) -> str:
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
