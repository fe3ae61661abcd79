"""The scheduler on nodes that a Ray joins: preemption, turns, drained nodes, packing, a shape rehearsed.

The control plane with its loops and real runners; agents as processes, a stand-in of Ray, and a real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors import ADA
from ray_clusters import RayNodes
from ray_harness import JoinedRay, StandInRay
from ray_site import CLUSTER, TRAINS, Site, opened_site, run_of
from tarmac.control.draining import NodeChoice
from tarmac.model.cluster import Cluster, NodeGroup, Pool
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import Rehearsal

TURN_S = 1.0
TURNS = 20
WEEK_S = 7 * 86_400.0

PROVES = """
state=$CHECKPOINT_ARTIFACT_PATH/state
if [ -s "$state" ]; then echo "goes on from $(cat "$state")"; exit 0; fi
printf %s "$TARMAC_ATTEMPT" > "$state.draft"; mv "$state.draft" "$state"
trap 'exit 0' TERM
echo began
while :; do sleep 0.1; done
"""
"""Leaves at the end of its first turn, and ends by itself in the next."""

REPORTS_SLOTS = """
echo "rank $NODE_RANK of $NNODES has $N_PROC"
trap 'exit 0' TERM
while :; do sleep 0.1; done
"""

SHAPE = NodeGroup(nodes=3, slots=24)
SMALL = (30, 8, 12, 6)


NODES = 3


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param(
            "real",
            marks=[pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)],
        ),
    ]
)
def ray(request: pytest.FixtureRequest, tmp_path: Path) -> StandInRay | JoinedRay:
    """Three nodes."""
    if request.param == "stand-in":
        return StandInRay(NODES)
    cluster: RayNodes = request.getfixturevalue("cluster")
    return JoinedRay(cluster, tmp_path.name)


def slots_by_rank(site: Site, run_id: str) -> list[tuple[str, tuple[int, ...]]]:
    """The node of each rank, without its cluster, and its slots there, once rank 0 has said the same."""
    placements = site.attempt(run_id, 1).allocation.placements
    site.wait_for_log(run_id, 1, f"rank 0 of {len(placements)} has {len(placements[0].slots)}")
    return [(each.node.partition(".")[0], each.slots) for each in placements]


def node_of(site: Site, run_id: str) -> str:
    """The node of a run's first attempt, once it is placed."""
    return site.node_of(site.attempt(run_id, 1))


def place(site: Site, slots: int) -> str:
    """The node where a new run of so many slots is placed."""
    (run_id,) = site.submit(run_of(TRAINS, slots=slots))
    return node_of(site, run_id)


def test_a_preempted_run_gives_its_slots_and_goes_on_from_its_checkpoint(
    ray: StandInRay | JoinedRay, tmp_path: Path
) -> None:
    pool = Pool(cluster=CLUSTER, turn_s=TURN_S, period_s=WEEK_S)
    with opened_site(tmp_path, ray, slots=4, pools=(pool,)) as site:
        (trains,) = site.submit(run_of(TRAINS, slots=12, mode=Mode.INTERRUPTIBLE))
        site.wait_for_log(trains, 1, "began from <>")

        (proves,) = site.submit(run_of(PROVES, slots=12, mode=Mode.CYCLE, max_rapid_cycles=TURNS))
        report = site.wait_for_end(proves).cycle_report
        assert report is not None
        assert report.proven, report
        site.wait_for_log(trains, 2, "began from <[1][late]>")

        (urgent,) = site.submit(run_of("echo done", slots=12))
        assert site.wait_for_end(urgent).outcome is Outcome.COMPLETED
        site.wait_for_log(trains, 3, "began from <[1][late][2][late]>")

        first, second, third = site.attempts(trains)
        assert [first.outcome, second.outcome] == [Outcome.PREEMPTED, Outcome.PREEMPTED]
        turns, batch = site.attempts(proves), site.attempts(urgent)
        for before, after in ((first, turns[0]), (turns[-1], second), (second, batch[0]), (batch[0], third)):
            assert before.ended_at is not None
            assert before.ended_at <= after.created_at


def test_a_drained_node_takes_nothing_new_and_its_neighbours_do(
    ray: StandInRay | JoinedRay, tmp_path: Path
) -> None:
    with opened_site(tmp_path, ray, slots=4) as site:
        (stays,) = site.submit(run_of(TRAINS, slots=2))
        site.wait_for_log(stays, 1, "began from <>")
        drained = NodeChoice(names=(node_of(site, stays),))
        site.plane.set_drained(ADA, drained, True)

        neighbours = {node.name for node in site.engine.nodes()} - set(drained.names)
        assert {place(site, 4), place(site, 4)} == neighbours
        (waits,) = site.submit(run_of(TRAINS, slots=2))
        site.wait(lambda: site.find(waits).state is RunState.QUEUED, "it is not queued")
        assert "drained" in str(site.plane.why(ADA, waits))
        assert site.find(stays).state is RunState.RUNNING
        assert not site.attempts(waits)

        site.plane.set_drained(ADA, drained, False)
        assert node_of(site, waits) == node_of(site, stays)


def test_runs_of_one_node_go_where_they_fit_best(ray: StandInRay | JoinedRay, tmp_path: Path) -> None:
    with opened_site(tmp_path, ray, slots=SHAPE.slots) as site:
        wide, middle = place(site, 20), place(site, 10)
        assert wide != middle
        assert place(site, 4) == wide
        assert place(site, 12) == middle
        assert place(site, 24) not in (wide, middle)
        assert place(site, 2) == middle


def placed(site: Site, cluster: str) -> Mapping[int, object]:
    """Some small runs and then one as large as the cluster: where each of them sat, by its slots."""
    found: dict[int, object] = {}
    small = []
    for slots in SMALL:
        (run_id,) = site.submit(run_of(REPORTS_SLOTS, slots=slots, cluster=cluster))
        small.append(run_id)
        found[slots] = slots_by_rank(site, run_id)
    (large,) = site.submit(run_of(REPORTS_SLOTS, slots=72, cluster=cluster))
    site.stop(*small)
    found[72] = slots_by_rank(site, large)
    site.stop(large)
    return found


def test_runs_are_placed_as_on_the_same_shape_rehearsed(tmp_path: Path) -> None:
    with opened_site(tmp_path, StandInRay(NODES), slots=SHAPE.slots) as site:
        site.plane.clusters.add(ADA, Cluster(name="shape", groups=(SHAPE,)))
        described = Rehearsal(described=Cluster(name="shape", groups=(SHAPE,)))
        (alone,) = site.submit(run_of(REPORTS_SLOTS, slots=72, cluster="shape", rehearsal=described))
        rehearsed = slots_by_rank(site, alone)
        site.stop(alone)

        real = placed(site, CLUSTER)
        assert real == placed(site, "shape")
        assert real[72] == rehearsed
        assert real[72] == [(f"node{number}", tuple(range(24))) for number in (1, 2, 3)]
