"""Schedule: updates the facts, plans, commits. Run by the schedule loop under its lease.

A plan is optimistic: each decision is valid only for its sequence number, and a stale one is dropped; the
loop is woken again and decides on newer facts.
"""

from __future__ import annotations

from tarmac.control.admission import refusal_reasons
from tarmac.control.decisions import steps
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.changes import RunStep
from tarmac.model.run import Cause, CauseCode, Outcome, Run
from tarmac.model.serving import Lease
from tarmac.sched import Placement, Plan, Preemption, Refusal, ShareGrant

Decision = ShareGrant | Placement | Preemption | Refusal

FIRST_PORT = 20000

MOST_ROUNDS = 3
"""The number of immediate plans in a pass after it records the shares of a new period."""


def schedule_pass(control: ControlState, lease: Lease | None) -> Plan:
    """Decide and commit; returns the last plan, whose `next_at` is the time of the next pass."""
    for _ in range(MOST_ROUNDS):
        now = control.clock.now()
        decided = control.scheduler_state.plan(now)
        if not (decided.placements or decided.preemptions or decided.refusals or decided.shares):
            return decided
        decisions, complete = _decisions(control, decided)
        taken = control.commit(decisions, lease=lease)
        if not (complete and all(taken)):
            control.event_bus.notify(Wakeup.SCHEDULE)
        if not decided.shares:
            break
    return decided


def _decisions(control: ControlState, decided: Plan) -> tuple[list[RunStep], bool]:
    """The steps of a plan, and whether all of its decisions are still valid.

    Their time is now: events in the plan may be later than its reading of the clock.
    """
    every: tuple[Decision, ...] = (
        *decided.shares,
        *decided.placements,
        *decided.preemptions,
        *decided.refusals,
    )
    with control.lock:
        run_cache = control.run_cache()
        runs = {item.run_id: run_cache.runs.get(item.run_id) for item in every}
        attempts = {item.run_id: run_cache.attempts.get(item.run_id) for item in decided.preemptions}
        now = control.clock.now()
    starting = _Starting(control, now) if decided.placements else None
    found: list[RunStep] = []
    premature = 0
    for item in every:
        run = runs[item.run_id]
        if run is None or run.seq != item.seq:
            continue
        if isinstance(item, Refusal) and _is_premature(control, run, item):
            premature += 1
            continue
        if isinstance(item, ShareGrant):
            found.append(steps.granted(run, item.share))
        elif isinstance(item, Refusal):
            found.append(steps.finished(run, Outcome.FAILED, refusal_cause(item), now))
        elif isinstance(item, Preemption):
            attempt = attempts[item.run_id]
            if attempt is not None:
                found.append(steps.preempt_run(run, attempt, item, now))
        elif starting is not None:
            found.append(starting.step(run, item))
    return found, len(found) + premature == len(every)


def _is_premature(control: ControlState, run: Run, refusal: Refusal) -> bool:
    """Whether a refusal is premature because not all nodes are known: after a restart, the run waits."""
    unknown = control.engines.with_unknown_nodes(run.spec.target.cluster)
    return refusal.code is CauseCode.NEVER_FITS and bool(unknown)


def refusal_cause(refusal: Refusal) -> Cause:
    """The cause of the end of a run that may not wait, or never fits."""
    reasons = refusal_reasons(refusal)
    if refusal.largest:
        reasons.append(f"what would fit: {refusal.largest}")
    return Cause(code=refusal.code, message="; ".join(reasons), reasons=tuple(reasons))


class _Starting:
    """Makes attempts of placements, with a MASTER_PORT that no live attempt on the address has."""

    def __init__(self, control: ControlState, now: float) -> None:
        self._control = control
        self._now = now
        self._nodes = control.node_table()
        self._taken: dict[str, set[int]] = {}

    def step(self, run: Run, placement: Placement) -> RunStep:
        """The step of one placement."""
        return steps.placed(
            run,
            placement,
            engine=self._control.engines.at(placement.allocation.cluster).name,
            token=self._control.ids.token(),
            port=self._port(placement),
            now=self._now,
            home=self._control.home,
        )

    def _port(self, placement: Placement) -> int:
        """A free port on the first node of the placement."""
        node = self._nodes.by_name.get(placement.allocation.first_node)
        address = node.address if node is not None else ""
        taken = self._taken.get(address)
        if taken is None:
            taken = self._taken[address] = self._control.ports_on(self._nodes.at.get(address, ()))
        inventory = self._control.engines.at(placement.allocation.cluster).inventory
        assert inventory is not None, "the nodes come from it"
        port = inventory.free_port(address, frozenset(taken))
        taken.add(port)
        return port
