"""Dependencies: records the ends that queued runs wait for. Run by the schedule loop, as its first step.

This happens before a run is placed, or given to the queue of a cluster, and is therefore the same on every
engine. Runs that are not live here have ended, were removed, or belong to another server: the store decides.
"""

from __future__ import annotations

from collections.abc import Collection

from tarmac.control.decisions.dependencies import End, end_of, end_of_array, meet_dependencies
from tarmac.control.state.control_state import ControlState
from tarmac.model.ports import Store
from tarmac.model.serving import Lease


def dependency_pass(control: ControlState, lease: Lease | None) -> None:
    """Record every end that a queued run waits for; end runs whose condition can no longer be met."""
    with control.lock:
        run_cache = control.run_cache()
        over = run_cache.waiters.of_others(run_cache.is_live)
        waiting = {run_id: run_cache.runs[run_id] for waiters in over.values() for run_id in waiters}
    if not over:
        return
    ends = _ends(control.store, over)
    now = control.clock.now()
    steps = [meet_dependencies(run, ends, now) for run in waiting.values()]
    control.commit([step for step in steps if step is not None], lease=lease)


def _ends(store: Store, awaited: Collection[str]) -> dict[str, End | None]:
    """The known ends of these runs and arrays; None for a removed one."""
    found = store.load_runs(list(awaited))
    ends: dict[str, End | None] = {}
    for identifier in awaited:
        run = found.get(identifier)
        counts = store.array_counts(identifier) if run is None else {}
        end = end_of(run) if run is not None else end_of_array(counts) if counts else None
        if end is not None or (run is None and not counts):
            ends[identifier] = end
    return ends
