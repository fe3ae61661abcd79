"""Strategies for scheduler facts: small clusters in which everything differs, runs that ask for anything."""

from __future__ import annotations

from hypothesis import strategies as st

from facts import BACKFILL_WINDOW_S, NOW, candidate, node, snapshot
from tarmac.model.cluster import NodeState
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.resources import Resources
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Demand, Holding, plan

TYPES = ("h100", "t4")

some_nodes = st.lists(
    st.builds(
        dict,
        slots=st.integers(0, 6),
        cpus=st.sampled_from([0.0, 2.0, 8.0]),
        memory_bytes=st.sampled_from([0, 4]),
        slot_type=st.sampled_from(TYPES),
        shard=st.sampled_from(["east", "west", None]),
        pool=st.sampled_from(["default", "default", "big"]),
        cluster=st.sampled_from(["local", "local", "x", "rehearsal-r0"]),
        state=st.sampled_from([NodeState.UP, NodeState.UP, NodeState.UP, NodeState.DRAINED, NodeState.DOWN]),
    ),
    min_size=1,
    max_size=6,
).map(lambda made: tuple(node(f"n{index}", **fields) for index, fields in enumerate(made)))

some_resources = st.builds(
    Resources,
    slots=st.integers(0, 4),
    slot_type=st.sampled_from([None, None, *TYPES]),
    cpus=st.sampled_from([0.0, 0.0, 1.0, 2.5]),
    memory_bytes=st.sampled_from([0, 0, 2]),
)

fixed_roles = st.builds(
    Demand, role=st.just("fixed"), replicas=st.integers(1, 4), slots=st.none(), each=some_resources
)
split_roles = st.builds(
    Demand,
    role=st.just("split"),
    replicas=st.none(),
    slots=st.integers(1, 12),
    each=some_resources.map(lambda each: replace(each, slots=0)),
    uneven=st.booleans(),
)
some_demands = st.one_of(
    fixed_roles.map(lambda role: (role,)),
    split_roles.map(lambda role: (role,)),
    st.tuples(fixed_roles.map(lambda role: replace(role, role="first")), fixed_roles),
    st.tuples(fixed_roles, split_roles),
)

some_targets = st.builds(
    Target,
    cluster=st.sampled_from([None, None, None, "local", "x", "rehearsal-r0", "nowhere"]),
    pool=st.sampled_from([None, None, "default", "big"]),
    shard=st.sampled_from([None, None, None, "east"]),
    hostnames=st.sampled_from([(), (), (), ("n0",), ("n1", "n2", "n3")]),
    excluded=st.sampled_from([(), (), (), ("n0",), ("n1", "n4")]),
)

some_runs = st.builds(
    dict,
    demands=some_demands,
    target=some_targets,
    mode=st.sampled_from([Mode.BATCH, Mode.CYCLE, Mode.INTERRUPTIBLE]),
    queueing=st.sampled_from([Queueing.WAIT, Queueing.WAIT, Queueing.FAIL_IF_BUSY]),
    priority=st.integers(-1, 1),
    position=st.sampled_from([None, None, NOW - 5, NOW + 5]),
    submitted_at=st.sampled_from([NOW - 10, NOW]),
    queued_at=st.sampled_from([NOW, NOW - BACKFILL_WINDOW_S]),
    time_limit_s=st.sampled_from([None, 10.0, 1000.0]),
)


def queue_of(runs, prefix="r"):
    return tuple(candidate(f"{prefix}{index}", **fields) for index, fields in enumerate(runs))


@st.composite
def snapshots(draw):
    """A cluster on which an earlier pass has started some runs, and a queue."""
    where = draw(some_nodes)
    up = tuple(replace(item, state=NodeState.UP) for item in where)
    earlier = plan(snapshot(up, queue_of(draw(st.lists(some_runs, max_size=4)), prefix="h")), NOW)
    runs = {placement.run_id: placement for placement in earlier.placements}
    holdings = tuple(
        Holding(
            candidate=candidate(run_id, time_limit_s=draw(st.sampled_from([None, 50.0]))),
            allocation=placement.allocation,
            granted_at=NOW - 20,
            started_at=draw(st.sampled_from([None, NOW - 10])),
            checkpoint_at=None,
            leaving=draw(st.booleans()),
        )
        for run_id, placement in runs.items()
    )
    return snapshot(where, queue_of(draw(st.lists(some_runs, max_size=6))), holdings)
