"""The three passes of the schedule loop, in their order: dependencies, submit, schedule.

`dependency_pass` records the ends that queued runs wait for. This happens before a run is placed, or given to
the queue of a cluster, and is therefore the same on every engine. Runs that are not live here have ended,
were removed, or belong to another server: the store decides.

    the other run          condition `completed`           condition `ended`
    --------------------   -----------------------------   ------------------
    has completed          met                             met
    has failed, was        the run ends failed, with that  met
    stopped                as its cause
    was removed before     the run ends failed: the end    met: only a run that has ended
    that was seen          of the other is unknown         can be removed

`submit_pass` gives queued runs to the clusters with their own queue: a run waits in one queue at a time. The
attempt is recorded first; the deliver loop of the cluster's engine then submits it. This pass also ends turns
of cycle runs.

`schedule_pass` updates the facts, plans, commits, under the lease. A plan is optimistic: each decision is
valid only for its sequence number, and a stale one is dropped; the loop is woken again and decides on newer
facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tarmac.control.admission import refusal_reasons
from tarmac.control.decisions import steps
from tarmac.control.delegation import request_of
from tarmac.control.limits import limit_book
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.event_bus import Wakeup
from tarmac.control.state.limit_state import use_of
from tarmac.model.array import AwaitedRun, Condition
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunEvent, RunState, step
from tarmac.model.ports import Store
from tarmac.model.progress import Cause, CauseCode, Outcome, StepEvent
from tarmac.model.run import Run
from tarmac.sched import Placement, Plan, Preemption, PreemptionReason, Refusal, ShareGrant

Decision = ShareGrant | Placement | Preemption | Refusal

FIRST_PORT = 20000

MOST_ROUNDS = 3
"""The number of immediate plans in a pass after it records the shares of a new period."""


def schedule_pass(control: ControlState) -> Plan:
    """Decide and commit; returns the last plan, whose `next_at` is the time of the next pass."""
    for _ in range(MOST_ROUNDS):
        now = control.clock.now()
        decided = control.scheduler_state.plan(now)
        if not (decided.placements or decided.preemptions or decided.refusals or decided.shares):
            return decided
        decisions, complete = _decisions(control, decided)
        taken = control.commit(decisions, lease=control.serving)
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
    starting = _Starting(control) if decided.placements else None
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
            found.append(begun(control, run, item, port=starting.port(item), now=now))
    return found, len(found) + premature == len(every)


def _is_premature(control: ControlState, run: Run, refusal: Refusal) -> bool:
    """Whether a run waits for other nodes: those not known yet after a restart, or those that it may rent."""
    waits = run.spec.may_rent or control.engines.with_unknown_nodes(run.spec.target.cluster)
    return refusal.code is CauseCode.NEVER_FITS and bool(waits)


def refusal_cause(refusal: Refusal) -> Cause:
    """The cause of the end of a run that may not wait, or never fits."""
    reasons = refusal_reasons(refusal)
    if refusal.largest:
        reasons.append(f"what would fit: {refusal.largest}")
    return Cause(code=refusal.code, message="; ".join(reasons), reasons=tuple(reasons))


class _Starting:
    """Finds a MASTER_PORT for each placement that no live attempt on the address has."""

    def __init__(self, control: ControlState) -> None:
        self._control = control
        self._nodes = control.node_table()
        self._taken: dict[str, set[int]] = {}

    def port(self, placement: Placement) -> int:
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


def begun(control: ControlState, run: Run, placement: Placement, *, port: int | None, now: float) -> RunStep:
    """The step that begins an attempt of this server on a placement."""
    engine, token = control.engines.at(placement.allocation.cluster).name, control.ids.token()
    return steps.placed(run, placement, engine=engine, token=token, port=port, now=now, home=control.home)


def submit_pass(control: ControlState) -> float | None:
    """Submit every run for such a cluster, and end turns that are over; returns the time of the next pass."""
    if control.engines.alone:
        return None
    decisions: list[RunStep] = []
    pauses: list[float] = []
    waiting = _waiting(control)
    book = limit_book(control) if waiting else None
    now = control.clock.now()  # after the runs were read: none of them is later
    for engine, runs in waiting:
        for run in runs:
            if run.retry is not None and run.retry.at > now:
                pauses.append(run.retry.at)
                continue
            step = _step(control, engine, run, now)
            if step is not None and step.attempt is not None and book is not None:
                use = use_of(step.after, step.attempt)
                if book.exceeded(use, run.spec.time_limit_s) is not None:
                    continue
                book.take(use)
            if step is not None:
                decisions.append(step)
    for run, attempt in control.live():
        if attempt.delegated and run.state is RunState.RUNNING and attempt.allotted_s is not None:
            ends_at = (attempt.started_at or now) + attempt.allotted_s
            if ends_at > now:
                pauses.append(ends_at)
            else:
                over = Preemption(run_id=run.id, seq=run.seq, reason=PreemptionReason.TURN_OVER)
                decisions.append(steps.preempt_run(run, attempt, over, now))
    control.commit(decisions, lease=control.serving)
    return min(pauses, default=None)


def _waiting(control: ControlState) -> list[tuple[AttachedEngine, list[Run]]]:
    """The queued runs for each cluster that places runs itself, in order of importance."""
    with control.lock:
        holds_back = control.run_cache().limits.holds_back
        waiting = {
            cluster: [run for run in runs.values() if not (run.awaits or holds_back(run.id))]
            for cluster, runs in control.run_cache().for_delegates.items()
        }
    return [
        (engine, sorted(runs, key=lambda run: (-run.place.priority, run.queued_at or 0.0, run.id)))
        for cluster, runs in waiting.items()
        if runs and (engine := control.engines.delegate_of(cluster)) is not None
    ]


def _step(control: ControlState, engine: AttachedEngine, run: Run, now: float) -> RunStep | None:
    request = request_of(run, engine, now)
    if isinstance(request, Refusal):
        return steps.finished(run, Outcome.FAILED, refusal_cause(request), now)
    return None if request is None else begun(control, run, request, port=None, now=now)


def dependency_pass(control: ControlState) -> None:
    """Record every end that a queued run waits for; end runs whose condition can no longer be met."""
    with control.lock:
        run_cache = control.run_cache()
        over = run_cache.waiters.of_others(run_cache.is_live)
        waiting = {run_id: run_cache.runs[run_id] for waiters in over.values() for run_id in waiters}
    if not over:
        return
    ends = _ends(control.store, over)
    now = control.clock.now()
    found = (_meet_dependencies(run, ends, now) for run in waiting.values())
    control.commit([step for step in found if step is not None], lease=control.serving)


def _ends(store: Store, awaited: Collection[str]) -> dict[str, _End | None]:
    """The known ends of these runs and arrays; None for a removed one."""
    found = store.load_runs(list(awaited))
    ends: dict[str, _End | None] = {}
    for identifier in awaited:
        run = found.get(identifier)
        counts = store.array_counts(identifier) if run is None else {}
        end = _end_of(run) if run is not None else _end_of_array(counts) if counts else None
        if end is not None or (run is None and not counts):
            ends[identifier] = end
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of a run, or of all members of an array: completed only if each is. `text` gives the reason if
    not.
    """

    outcome: Outcome
    text: str = ""


def _end_of(run: Run) -> _End | None:
    """The end of a run; None if it has not ended."""
    if run.outcome is None:
        return None
    because = f": {run.cause.message}" if run.cause is not None else ""
    return _End(
        outcome=run.outcome, text="was stopped" if run.outcome is Outcome.STOPPED else f"failed{because}"
    )


def _end_of_array(counts: Mapping[tuple[RunState, Outcome | None], int]) -> _End | None:
    """The end of an array, from its number of members per state; None if some have not ended."""
    if any(outcome is None for _, outcome in counts):
        return None
    others = sum(count for (_, outcome), count in counts.items() if outcome is not Outcome.COMPLETED)
    total = sum(counts.values())
    return _End(
        outcome=Outcome.FAILED if others else Outcome.COMPLETED,
        text=f"did not: {others} of {total} members failed or were stopped",
    )


def _meet_dependencies(run: Run, ends: Mapping[str, _End | None], now: float) -> RunStep | None:
    """The step that the ends of these runs (None: removed) require; None if the run awaits none of them."""
    over = [each for each in run.awaits if each.run_id in ends]
    for each in over:
        end = ends[each.run_id]
        completed = end is not None and end.outcome is Outcome.COMPLETED
        if each.condition is Condition.COMPLETED and not completed:
            return steps.finished(run, Outcome.FAILED, _cause(each, end), now)
    if not over:
        return None
    met = tuple(replace(each, met=True) if each in over else each for each in run.dependencies)
    events = tuple(
        StepEvent(event=RunEvent.DEPENDENCY_MET, at=now, detail=_detail(each, ends[each.run_id]))
        for each in over
    )
    assert run.state is RunState.QUEUED, "whoever waits for another run is queued"
    state = step(run.state, RunEvent.DEPENDENCY_MET)
    after = replace(run, state=state, seq=run.seq + len(events), dependencies=met)
    return RunStep(before=run, after=after, events=events)


def _cause(awaited: AwaitedRun, end: _End | None) -> Cause:
    text = "was removed before it was seen how it ended" if end is None else end.text
    message = f"it was to start after {awaited} has completed, and that {text}"
    return Cause(code=CauseCode.DEPENDENCY_FAILED, message=message)


def _detail(awaited: AwaitedRun, end: _End | None) -> dict[str, str]:
    detail = {"run": awaited.run_id, "name": awaited.name}
    return detail if end is None else detail | {"outcome": end.outcome.value}
