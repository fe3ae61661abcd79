"""`explain`: what becomes of one run and why, with every node's reason. Called by `control` for `tarmac why`.

It is the pass itself, stopped at the run in question: what it tells is what `plan` would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf

from tarmac.model.cluster import NodeState
from tarmac.sched.admission import largest
from tarmac.sched.deciding import PoolPass
from tarmac.sched.decisions import Placement, Refusal, Waiting
from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.forecast import Forecast, awaited
from tarmac.sched.ledger import Ledger
from tarmac.sched.planning import Pass

NAMES_SHOWN = 4
"""A sentence names at most so many runs or nodes."""


def explain(snapshot: Snapshot, run_id: str, now: float) -> Waiting | Refusal | Placement:
    """What the next pass decides for this queued run; raises KeyError if it is not in the queue."""
    ledger = Ledger(snapshot)
    candidate = {candidate.run_id: candidate for candidate in snapshot.queue}[run_id]
    made = ledger.plan(now)
    decisions: tuple[Placement | Refusal, ...] = (*made.placements, *made.refusals)
    for decision in decisions:
        if decision.run_id == run_id:
            return decision
    current = Pass(ledger, now)
    home = current.stop_at(run_id)
    return _waiting(_Case(snapshot, ledger, current, home, candidate))


class _Case:
    """One waiting run, and what may be asked about it."""

    def __init__(
        self,
        snapshot: Snapshot,
        ledger: Ledger,
        current: Pass,
        home: PoolPass | None,
        candidate: Candidate,
    ) -> None:
        self.snapshot = snapshot
        self.ledger = ledger
        self.current = current
        self.home = home
        self.candidate = candidate
        self.kind = ledger.kind(candidate)
        self.now = current.now

    @property
    def ahead(self) -> int:
        """How many waiting runs are ordered before it."""
        if self.home is None:
            return 0
        waiting = (queued.candidate.run_id for queued in self.home.in_order())
        before = takewhile(lambda run_id: run_id != self.candidate.run_id, waiting)
        return sum(run_id not in self.home.placed for run_id in before)


def _waiting(case: _Case) -> Waiting:
    return Waiting(
        run_id=case.candidate.run_id,
        seq=case.candidate.seq,
        ahead=case.ahead,
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
    home = case.home
    forecast = None if home is None else home.forecast(case.kind)
    if home is None or forecast is None:
        if case.ledger.admission.silent(case.kind.target):
            return "It starts when its cluster reports nodes that take it."
        if home is not None and home.keepings and home.state.possible(case.kind):
            return f"It starts after {_keepers(case)}, for which nodes are kept."
        return "It starts when enough of the nodes above take work again."
    keepers = _keepers(case)
    runs = [held.ends[2] for held in awaited(forecast, home.state.releases)]
    if not runs:
        return f"It starts after {keepers}, for which nodes are kept."
    sentence = f"It starts when {_ends(runs, forecast, case.now)}"
    return sentence + (f", and after {keepers}, for which nodes are kept." if keepers else ".")


def _keepers(case: _Case) -> str:
    """The runs for which nodes are kept."""
    keepings = case.home.keepings if case.home is not None else []
    return _some(sorted(keeping.run_id for keeping in keepings)) if keepings else ""


def _ends(runs: Sequence[str], forecast: Forecast, now: float) -> str:
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
    made = Ledger(replace(case.snapshot, nodes=nodes)).plan(case.now)
    placed = [item for item in made.placements if item.run_id == case.candidate.run_id]
    return [name for item in placed for name in item.allocation.nodes if name in drained]


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
