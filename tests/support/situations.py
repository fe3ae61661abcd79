"""Random situations of the scheduler: a cluster on which an earlier pass has started some runs, and a queue.

Small on purpose: few nodes, sizes and priorities, so that runs get in each other's way.
"""

from __future__ import annotations

from hypothesis import strategies as st

from facts import NOW, candidate, gang, node, replicas
from tarmac.model.cluster import NodeState, Packing, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Holding, Snapshot, plan

POOLS = ("default", "big")

some_nodes = st.lists(
    st.builds(
        dict,
        slots=st.integers(1, 6),
        cpus=st.sampled_from([0.0, 8.0]),
        slot_type=st.sampled_from(["h100", "t4"]),
        shard=st.sampled_from(["east", "west", None]),
        pool=st.sampled_from([*POOLS, "default"]),
        state=st.sampled_from([NodeState.UP, NodeState.UP, NodeState.UP, NodeState.DRAINED]),
    ),
    min_size=1,
    max_size=5,
).map(lambda made: tuple(node(f"n{index}", **fields) for index, fields in enumerate(made, start=1)))

some_pools = st.tuples(
    *(
        st.builds(
            Pool,
            cluster=st.just("local"),
            name=st.just(name),
            policy=st.sampled_from(Policy),
            preemption=st.booleans(),
            packing=st.sampled_from(Packing),
            guaranteed_s=st.sampled_from([10.0, 300.0]),
        )
        for name in POOLS
    )
)

some_runs = st.builds(
    dict,
    demands=st.one_of(
        st.builds(gang, st.integers(1, 8), slot_type=st.sampled_from([None, None, "h100"])),
        st.builds(replicas, st.integers(1, 3), st.integers(0, 4)),
    ).map(lambda demand: (demand,)),
    target=st.builds(
        Target,
        pool=st.sampled_from([None, None, *POOLS]),
        shard=st.sampled_from([None, None, "east"]),
        hostnames=st.sampled_from([(), (), ("n1",)]),
        excluded=st.sampled_from([(), (), ("n2",)]),
    ),
    mode=st.sampled_from([Mode.BATCH, Mode.BATCH, Mode.CYCLE, Mode.INTERRUPTIBLE]),
    queueing=st.sampled_from([Queueing.WAIT, Queueing.WAIT, Queueing.WAIT, Queueing.FAIL_IF_BUSY]),
    priority=st.integers(0, 2),
    position=st.sampled_from([None, None, NOW - 5]),
    submitted_at=st.sampled_from([NOW - 700, NOW - 10, NOW]),
    owner=st.sampled_from(["ada", "bob"]),
    attained_slot_s=st.sampled_from([0.0, 5e3]),
    time_limit_s=st.sampled_from([None, 10.0, 1000.0]),
    ran_s=st.sampled_from([0.0, 0.0, 5.0]),
    guess_slot_s=st.sampled_from([None, None, 400.0, 1e6]),
)


@st.composite
def situations(draw: st.DrawFn, *, contested: bool = False) -> Snapshot:
    """Facts in the middle of a cluster's life; `contested`: batch runs of several priorities in one pool."""
    where, pools = draw(some_nodes), draw(some_pools)
    if contested:
        where = tuple(replace(item, pool="default", shard=None, state=NodeState.UP) for item in where)
        pools = tuple(replace(pool, policy=Policy.PRIORITY) for pool in pools)
    up = tuple(replace(item, state=NodeState.UP) for item in where)
    runs = some_runs.map(_plain) if contested else some_runs
    before = _runs(draw(st.lists(runs, max_size=4)), "h")
    earlier = plan(Snapshot(pools=pools, nodes=up, queue=before, holdings=()), NOW - 1000)
    by_id = {run.run_id: run for run in before}
    holdings = tuple(
        Holding(
            candidate=by_id[placement.run_id],
            allocation=placement.allocation,
            granted_at=NOW - 50,
            started_at=draw(st.sampled_from([None, NOW - 40])),
            checkpoint_at=None,
            leaving=draw(st.sampled_from([False, False, True])),
            grace_s=5.0,
        )
        for placement in earlier.placements
    )
    queue = _runs(draw(st.lists(runs, min_size=1, max_size=6)), "r")
    return Snapshot(pools=pools, nodes=where, queue=queue, holdings=holdings)


def _plain(fields):
    """A batch run that may lie anywhere."""
    return {**fields, "mode": Mode.BATCH, "queueing": Queueing.WAIT, "target": Target()}


def _runs(fields, prefix):
    return tuple(
        candidate(f"{prefix}{index}", **{"queued_at": item["submitted_at"], **item})
        for index, item in enumerate(fields)
    )
