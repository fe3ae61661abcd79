"""Runs, attempts and nodes for tests of `launch`: from a run file and a list of placements."""

from __future__ import annotations

from tarmac.launch.compose import compose
from tarmac.model.cluster import Node
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.progress import WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.node.attempt.document import Launch, WorkerLaunch
from tarmac.systems.registry import read


def node(name: str, address: str = "10.0.0.1", *, slots: int = 8, cpus: float = 64.0) -> Node:
    """A node of a cluster."""
    capacity = Resources(slots=slots, slot_type="h100", cpus=cpus, memory_bytes=1 << 38)
    return Node(name=name, cluster="site-a", address=address, hostname=f"{name}.example", capacity=capacity)


def placement(role: str, replica: int, node: str, *slots: int) -> WorkerPlacement:
    """One replica's place."""
    return WorkerPlacement(role=role, replica=replica, node=node, slots=slots)


def launch(
    source: str,
    nodes: list[Node],
    placements: list[WorkerPlacement],
    inherited: dict[str, str] | None = None,
    *,
    allotted_s: float | None = None,
    ran_s: float = 0.0,
    master_port: int | None = 29501,
) -> Launch:
    """The launch of the second attempt of a run file on these placements."""
    spec = read(source, filename="digits.yaml", directory="/home/ada/digits").spec
    spec = replace(spec, environment=replace(spec.environment, inherited=inherited or {}))
    run = Run(
        id="r1",
        spec=spec,
        user="ada",
        state=RunState.STARTING,
        seq=3,
        created_at=1.0,
        code_digest="sha256-0",
        ran_s=ran_s,
    )
    attempt = Attempt(
        run_id="r1",
        number=2,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="site-a", placements=tuple(placements)),
        token="secret",
        master_port=master_port,
        created_at=2.0,
        allotted_s=allotted_s,
    )
    return compose(run, attempt, {item.name: item for item in nodes})


def workers(launched: Launch) -> list[WorkerLaunch]:
    """Every worker of a launch, node by node."""
    return [worker for item in launched.nodes for worker in item.workers]
