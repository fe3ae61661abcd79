"""A cluster's own history as a trace, and its cluster, from the records of the server's API.

Called by `tarmac simulate --history`; runs that have not ended, or never ran, are left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tarmac import api
from tarmac.api.clusters import Node
from tarmac.model.cluster import REHEARSAL_PREFIX, Cluster, NodeGroup, Pool
from tarmac.model.codec import common, replace
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import Mode
from tarmac.model.summary import RunSummary
from tarmac.simulator.jobs import Job, Trace

FORM = "history"


def busiest(runs: Sequence[RunSummary]) -> str:
    """The lasting cluster that most of these runs ran on; raises Refused if none ran on any."""
    on = Counter(
        run.cluster
        for run in runs
        if run.cluster is not None
        and run.started_at is not None
        and not run.cluster.startswith(REHEARSAL_PREFIX)
    )
    if not on:
        raise Refused("no run of a lasting cluster has ended yet: there is no history to play")
    return str(min(on, key=lambda name: (-on[name], name)))


def trace_of(
    runs: Sequence[RunSummary], attempts: Mapping[str, Sequence[api.Attempt]], cluster: str
) -> Trace:
    """The trace of the runs that ended on a cluster; `attempts` are those of runs that had several."""
    here = [run for run in runs if run.cluster == cluster]
    jobs = sorted(_jobs(here, attempts), key=lambda job: (job.submitted_at, job.id))
    return Trace(name="history", form=FORM, jobs=tuple(jobs))


def cluster_of(name: str, nodes: Sequence[Node], clusters: Sequence[api.Cluster]) -> Cluster:
    """The present cluster of this name: its nodes by kind, and the rules of its pools."""
    alike = Counter(NodeGroup(**common(NodeGroup, node), nodes=1) for node in nodes if node.cluster == name)
    if not alike:
        raise Refused(f"cluster {name!r} has no node any more", hint="name another: --cluster 4x8")
    known = next((cluster for cluster in clusters if cluster.name == name), None)
    pools = known.pools if known is not None else ()
    return Cluster(
        name=FORM,
        groups=tuple(
            replace(group, nodes=count, prefix=f"node{number}-")
            for number, (group, count) in enumerate(alike.items())
        ),
        pools=tuple(Pool(**common(Pool, rules), cluster=FORM) for rules in pools),
    )


def _jobs(runs: Sequence[RunSummary], attempts: Mapping[str, Sequence[api.Attempt]]) -> Iterator[Job]:
    for run in runs:
        duration_s = _ran_s(run, attempts.get(run.id))
        if duration_s is None:
            continue
        yield Job(
            id=run.id,
            name=run.name,
            submitted_at=run.created_at,
            duration_s=duration_s,
            slots=run.slots,
            user=run.user,
            project=run.project,
            mode=Mode(run.mode),
            priority=run.priority,
            pool=run.pool,
        )


def _ran_s(run: RunSummary, attempts: Sequence[api.Attempt] | None) -> float | None:
    """The total running time of a run; None if it never ran."""
    attempts_or_run = attempts if attempts is not None else [run]
    worked = [
        attempt.ended_at - attempt.started_at
        for attempt in attempts_or_run
        if attempt.started_at is not None and attempt.ended_at is not None
    ]
    return max(0.0, sum(worked)) if worked else None
