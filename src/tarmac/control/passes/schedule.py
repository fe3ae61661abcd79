"""Schedule: one snapshot, one plan, one commit. Run by the schedule loop under its lease.

A plan is optimistic: each decision holds only for the sequence number it was made on, and a stale one is
dropped; the loop is rung again and decides on fresher facts.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.control import steps
from tarmac.control.admission import refusal_text
from tarmac.control.hub import Bell
from tarmac.control.world import World
from tarmac.model.changes import Lease, RunStep
from tarmac.model.ports import OffersPorts
from tarmac.model.run import Cause, Outcome, Run
from tarmac.sched import Placement, Plan, Preemption, Refusal, Snapshot, plan

FIRST_PORT = 20000
PORTS = 10000


def schedule_pass(world: World, lease: Lease | None) -> Plan:
    """Decide once and commit what was decided; returns the plan."""
    now = world.clock.now()
    snapshot = world.snapshot()
    decided = plan(snapshot, now)
    if not (decided.placements or decided.preemptions or decided.refusals):
        return decided
    with world.lock:
        mirror = world.mirror()
        mentioned = tuple(_mentioned(decided))
        runs = {run_id: mirror.runs.get(run_id) for run_id in mentioned}
        attempts = {run_id: mirror.attempts.get(run_id) for run_id in mentioned}
    decisions: list[RunStep] = []
    ports = _Ports(world, snapshot)
    for placement in decided.placements:
        run = _current(runs, placement)
        if run is not None:
            port = ports.take(placement)
            decisions.append(
                steps.placed(
                    run,
                    placement.allocation,
                    engine=world.engine.name,
                    token=world.ids.token(),
                    port=port,
                    now=now,
                )
            )
    for preemption in decided.preemptions:
        run = _current(runs, preemption)
        attempt = attempts.get(preemption.run_id)
        if run is not None and attempt is not None:
            decisions.append(steps.preempt_asked(run, attempt, preemption, now))
    for refusal in decided.refusals:
        run = _current(runs, refusal)
        if run is not None:
            decisions.append(steps.finished(run, Outcome.FAILED, refusal_cause(refusal), now))
    taken = world.commit(decisions, lease=lease)
    if not all(taken):
        world.hub.ring(Bell.SCHEDULE)
    return decided


def refusal_cause(refusal: Refusal) -> Cause:
    """Why a run that may not wait, or never fits, ends."""
    text = refusal_text(refusal)
    if refusal.largest:
        text += f"; what would fit: {refusal.largest}"
    return Cause(code=refusal.code, message=text)


def _mentioned(decided: Plan) -> Iterable[str]:
    for decisions in (decided.placements, decided.preemptions, decided.refusals):
        for decision in decisions:
            yield decision.run_id


def _current(runs: dict[str, Run | None], decision: Placement | Preemption | Refusal) -> Run | None:
    """The run a decision is about, while it is still the one that was decided on."""
    run = runs[decision.run_id]
    return run if run is not None and run.seq == decision.seq else None


class _Ports:
    """Hands out MASTER_PORTs that no live attempt on the same address was promised."""

    def __init__(self, world: World, snapshot: Snapshot) -> None:
        self._engine = world.engine
        self._addresses = {node.name: node.address for node in snapshot.nodes}
        self._taken: dict[str, set[int]] = {}
        for _, attempt in world.live():
            self._taken.setdefault(self._address(attempt.allocation.nodes), set()).add(attempt.master_port)

    def take(self, placement: Placement) -> int:
        """A free port on the first node of the placement."""
        address = self._address(placement.allocation.nodes)
        taken = self._taken.setdefault(address, set())
        if isinstance(self._engine, OffersPorts):
            port = self._engine.free_port(address, frozenset(taken))
        else:
            port = next(port for port in range(FIRST_PORT, FIRST_PORT + PORTS) if port not in taken)
        taken.add(port)
        return port

    def _address(self, nodes: tuple[str, ...]) -> str:
        return self._addresses.get(nodes[0], "") if nodes else ""
