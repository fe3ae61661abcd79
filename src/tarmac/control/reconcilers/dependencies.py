"""Dependencies: queued runs are told of the ends that they wait for. Run by the schedule loop, first of all.

Before a run is placed, or given to the queue of a cluster: so it is the same on every engine. Runs that are
not live here have ended, were removed, or are another server's: the store says which.
"""

from __future__ import annotations

from tarmac.control.decisions.dependencies import meet_dependencies
from tarmac.control.state.control_state import ControlState
from tarmac.model.serving import Lease


def dependency_pass(control: ControlState, lease: Lease | None) -> None:
    """Record every end that a queued run waits for; end those whose run cannot complete any more."""
    with control.lock:
        run_cache = control.run_cache()
        over = run_cache.waiters.of_others(run_cache.runs)
        waiting = {run_id: run_cache.runs[run_id] for waiters in over.values() for run_id in waiters}
    if not over:
        return
    found = control.store.load_runs(list(over))
    others = {run_id: found.get(run_id) for run_id in over}
    now = control.clock.now()
    steps = [meet_dependencies(run, others, now) for run in waiting.values()]
    control.commit([step for step in steps if step is not None], lease=lease)
