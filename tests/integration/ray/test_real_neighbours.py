"""Others use a real Ray at the same time: neither takes from the other what it holds."""

from __future__ import annotations

import pytest

from engine_harness import Work, ended
from ray_clusters import BIN, RayNodes
from ray_harness import RealRayHarness
from tarmac.model.lifecycle import LeaveRequest

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]

JOINED = """
import sys
import ray
from ray._private.state import available_resources_per_node
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=sys.argv[1], namespace="others", log_to_driver=False, configure_logging=False)
nodes = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
node = nodes[sys.argv[2]]
"""

TAKE = """
@ray.remote(num_cpus=1)
class Work:
    def begun(self):
        return True

there = NodeAffinitySchedulingStrategy(node, soft=False)
work = Work.options(name="work", lifetime="detached", scheduling_strategy=there).remote()
ray.get(work.begun.remote())
"""

LEAVE = "ray.kill(ray.get_actor('work'))"
FREE = "print(available_resources_per_node()[node].get('CPU', 0.0))"


def others(cluster: RayNodes, number: int, script: str) -> str:
    """What others do with a node, in a program of theirs that has joined the Ray; what that prints."""
    address = f"{cluster.subnet}.{10 + number}"
    return cluster.on(0, str(BIN / "python"), "-c", JOINED + script, cluster.address, address).strip()


def reason(real: RealRayHarness, number: int) -> str:
    """Why nothing is placed on a node now."""
    address = f"{real.cluster.subnet}.{10 + number}"
    return next(node.reason for node in real.engine.nodes() if node.address == address)


def test_what_others_hold_is_left_to_them_and_they_get_nothing_of_a_reserved_node(
    real: RealRayHarness,
) -> None:
    cluster = real.cluster
    free = float(others(cluster, 1, FREE))
    attempt = real.submit(real.launch(Work(lasts=True), run_id="ours", on=(1,)))
    real.at_work(attempt)
    assert (free, float(others(cluster, 1, FREE))) == (2.0, 0.0)
    others(cluster, 2, TAKE)
    try:
        real.wait(lambda: reason(real, 2) == "others use it through Ray")
        assert real.state_of(2) == "down"
        assert real.state_of(1) == "up"
    finally:
        others(cluster, 2, LEAVE)
    real.wait(lambda: real.state_of(2) == "up")
    real.ask(attempt, LeaveRequest.STOP)
    real.settle(attempt, ended)
    real.wait(lambda: float(others(cluster, 1, FREE)) == 2.0)  # it is let go once no run needs it
