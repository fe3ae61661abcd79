"""Monitoring: whether the server works, and its metrics. Used by `routes/pages.py`."""

from collections import Counter
from collections.abc import Iterator

import tarmac
from tarmac.control import draining
from tarmac.control.draining import ALL_NODES
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.tallies import CYCLE_BOUNDS_S, Tallies
from tarmac.model.cluster import NodeState
from tarmac.model.errors import TarmacError
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.server.exposition import Kind, Metric, Sample, counted, measured
from tarmac.server.service import Service

_QUEUED = frozenset({RunState.QUEUED, RunState.SUBMITTED})


def failures(service: Service) -> list[str]:
    """The reasons why the server does not work; empty if it does."""
    found = list(service.loop_trouble())
    try:
        service.plane.control.store.last_event_id()
    except TarmacError as error:
        found.append(f"the database does not answer: {error.message}")
    return found


def metrics(service: Service) -> Iterator[Metric]:
    """The current value of every metric."""
    control = service.plane.control
    yield measured("tarmac_info", "The version of this server.", {(tarmac.__version__,): 1}, "version")
    yield from _runs(control)
    yield from _slots(control)
    yield from _counts(control.tallies)
    yield counted(
        "tarmac_engine_call_failures_total",
        "Calls of the engine of a cluster that failed.",
        {(engine.key or control.server,): engine.failed_calls for engine in control.engines},
        "cluster",
    )
    yield counted(
        "tarmac_http_requests_total", "HTTP requests answered.", service.requests.counts(), "method", "code"
    )


def _runs(control: ControlState) -> Iterator[Metric]:
    states: Counter[tuple[str, ...]] = Counter({(str(state),): 0 for state in LIVE_STATES})
    queue: Counter[tuple[str, ...]] = Counter()
    with control.lock:
        for run in control.run_cache().runs.values():
            states[str(run.state),] += 1
            if run.state in _QUEUED:
                target = run.spec.target
                queue[target.cluster or "", run.place.pool or target.pool or ""] += 1
    yield measured("tarmac_runs", "Runs that have not ended, by state.", states, "state")
    yield measured(
        "tarmac_queue_length",
        "Runs that wait, by the cluster and pool they ask for (empty: any).",
        queue,
        "cluster",
        "pool",
    )


def _slots(control: ControlState) -> Iterator[Metric]:
    used: Counter[tuple[str, ...]] = Counter()
    free: Counter[tuple[str, ...]] = Counter()
    nodes: Counter[tuple[str, ...]] = Counter()
    for report in draining.chosen_reports(control, ALL_NODES):
        node = report.node
        used[node.cluster, node.pool] += report.slots_used
        idle = node.capacity.slots - report.slots_used if node.state is NodeState.UP else 0
        free[node.cluster, node.pool] += max(idle, 0)
        nodes[node.cluster, node.pool, str(node.state)] += 1
    yield measured("tarmac_slots_used", "Slots that runs hold.", used, "cluster", "pool")
    yield measured("tarmac_slots_free", "Slots of nodes that take work.", free, "cluster", "pool")
    yield measured("tarmac_nodes", "Nodes, by state.", nodes, "cluster", "pool", "state")


def _counts(tallies: Tallies) -> Iterator[Metric]:
    yield counted("tarmac_attempts_started_total", "Attempts that began.", {(): tallies.attempts_started})
    yield counted(
        "tarmac_attempts_ended_total",
        "Attempts that ended, by outcome.",
        {(outcome,): number for outcome, number in tallies.attempts_ended().items()},
        "outcome",
    )
    yield counted(
        "tarmac_runs_ended_total",
        "Runs that ended, by outcome.",
        {(outcome,): number for outcome, number in tallies.runs_ended().items()},
        "outcome",
    )
    counts, total_s = tallies.cycles()
    below, samples = 0, []
    for bound, count in zip([*map(str, CYCLE_BOUNDS_S), "+Inf"], counts, strict=True):
        below += count
        samples.append(Sample(below, {"le": bound}, "_bucket"))
    samples += [Sample(total_s, {}, "_sum"), Sample(below, {}, "_count")]
    yield Metric(
        "tarmac_scheduling_cycle_seconds", Kind.HISTOGRAM, "Time of a scheduling cycle.", tuple(samples)
    )
