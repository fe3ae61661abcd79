"""A cluster's own history as a trace, and the cluster it was on, from the records of the server's API.

Called by `tarmac simulate --history`; what has not ended, or never held anything, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac.model.cluster import LOCAL_CLUSTER, REHEARSAL_PREFIX, Cluster, NodeGroup, Pool
from tarmac.model.errors import Refused
from tarmac.model.spec import Mode
from tarmac.simulator.jobs import Job, Trace

FORM = "history"

Record = Mapping[str, Any]
"""A JSON object as the server's API gives it."""


def trace_of(runs: Sequence[Record], attempts: Mapping[str, Sequence[Record]]) -> Trace:
    """The trace of runs that have ended; `attempts` are those of runs that had several."""
    jobs = sorted(_jobs(runs, attempts), key=lambda job: (job.submitted_at, job.id))
    if not jobs:
        raise Refused("no run of the lasting clusters has ended yet: there is no history to play")
    return Trace(name="history", form=FORM, jobs=tuple(jobs))


def cluster_of(nodes: Sequence[Record], pools: Sequence[Pool] = ()) -> Cluster:
    """The cluster that these nodes make, rehearsals left out: one of all, each node as it is."""
    lasting = [node for node in nodes if not node["cluster"].startswith(REHEARSAL_PREFIX)]
    if not lasting:
        raise Refused("the server knows no node of a lasting cluster", hint="name one: --cluster 4x8")
    groups: dict[tuple[Any, ...], int] = {}
    for node in lasting:
        kind = (
            node["slots"],
            node["slot_type"],
            node["cpus"],
            node["memory_bytes"],
            node["pool"],
            node["shard"],
        )
        groups[kind] = groups.get(kind, 0) + 1
    return Cluster(
        name=FORM,
        groups=tuple(
            NodeGroup(
                nodes=count,
                slots=slots,
                slot_type=slot_type,
                cpus=cpus,
                memory_bytes=memory_bytes,
                pool=pool,
                shard=shard,
            )
            for (slots, slot_type, cpus, memory_bytes, pool, shard), count in groups.items()
        ),
        pools=tuple(pools),
    )


def _jobs(runs: Sequence[Record], attempts: Mapping[str, Sequence[Record]]) -> Iterator[Job]:
    for run in runs:
        duration_s = _ran_s(run, attempts.get(run["id"]))
        if duration_s is None or (run["cluster"] or LOCAL_CLUSTER).startswith(REHEARSAL_PREFIX):
            continue
        yield Job(
            id=run["id"],
            name=run["name"],
            submitted_at=run["created_at"],
            duration_s=duration_s,
            slots=run["slots"],
            user=run["user"],
            project=run["project"],
            mode=Mode(run.get("mode", Mode.BATCH)),
            priority=run["priority"],
            weight=run.get("weight") or 1.0,
        )


def _ran_s(run: Record, attempts: Sequence[Record] | None) -> float | None:
    """How long a run worked in all; None when it never did."""
    stretches = attempts if attempts is not None else [run]
    worked = [
        stretch["ended_at"] - stretch["started_at"]
        for stretch in stretches
        if stretch["started_at"] is not None and stretch["ended_at"] is not None
    ]
    return max(0.0, sum(worked)) if worked else None
