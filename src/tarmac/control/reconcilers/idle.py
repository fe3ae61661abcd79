"""Reports runs that leave their slots idle, and pauses them where the pool's rules say so.

Run by the loop `reap` of each engine. The time counts from the last sign of use that this server saw: a busy
slot, a report (which `reconcile` notes), or a session.
"""

from tarmac.control.decisions import steps
from tarmac.control.decisions.idleness import IdleAction, Idleness, action, uses_slots
from tarmac.control.decisions.notifications import idle_messages
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.abilities import ReadsReports
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState


def idle_pass(control: ControlState, engine: AttachedEngine) -> None:
    """Look at the running attempts of an engine, in pools with such rules."""
    pools = {pool.key: pool for pool in control.offer()[0] if pool.idle_report_s is not None}
    adapter, idle, now = engine.adapter, engine.idle, control.clock.now()
    if not pools or not isinstance(adapter, ReadsReports):
        return
    live = {
        attempt.id: (run, attempt, pools[attempt.allocation.cluster, attempt.allocation.pool])
        for run, attempt in control.live_on(engine)
        if run.state is RunState.RUNNING
        and attempt.current_allocation.slots
        and (attempt.allocation.cluster, attempt.allocation.pool) in pools
    }
    measured = adapter.utilization(list(live))
    used = {each for each, (run, *_) in live.items() if control.attached[run.id]}
    used |= {each for each in live if uses_slots(measured.get(each, ()), now)}
    for attempt_id in list(idle):  # another loop may remove some meanwhile
        if attempt_id in used or attempt_id not in live:
            idle.pop(attempt_id, None)
    pauses: list[RunStep] = []
    for attempt_id in live.keys() - used:
        run, attempt, rules = live[attempt_id]
        known = idle.setdefault(attempt_id, Idleness(since=now))
        idle_s, required = now - known.since, action(known, rules, now)
        messages = idle_messages(run, control.subscriptions.of, idle_s, now) if required else ()
        if required is IdleAction.PAUSE:
            pause = steps.pause_idle_run(run, attempt, idle_s, now)
            pauses.append(replace(pause, notifications=messages))
        elif required is IdleAction.REPORT:
            control.store.notifications.add(messages)
            known.is_reported = True  # in place: a report may have removed it meanwhile
            control.event_bus.notify(Wakeup.NOTIFY)
    control.commit(pauses, lease=control.serving)
