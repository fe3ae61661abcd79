"""Where workers stand: NNODES, NODE_RANK, N_PROC, slots. C9 and I16 for the native dialect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launches import launch, node, placement, workers
from tarmac.node.attempt.protocol import late_address, rank_name

NODES = [node("n1", "10.0.0.1"), node("n2", "10.0.0.2"), node("n3", "10.0.0.3")]
TORCH = "slots: 16\ncommand: torchrun train.py\n"


def test_slots_run_the_command_once_per_node_with_a_process_for_each_slot() -> None:
    """I16: NNODES x N_PROC is the number of slots."""
    launched = launch(
        TORCH, NODES, [placement("main", 0, "n2", *range(8)), placement("main", 1, "n3", *range(8))]
    )
    envs = [worker.env for worker in workers(launched)]
    assert [item.node for item in launched.nodes] == ["n2", "n3"]
    assert [(env["NODE_RANK"], env["NNODES"], env["N_PROC"]) for env in envs] == [
        ("0", "2", "8"),
        ("1", "2", "8"),
    ]
    assert {(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs} == {("10.0.0.2", "29501")}
    assert envs[0]["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3))
def test_n_proc_adds_up_to_the_slots_over_uneven_nodes(shares: list[int]) -> None:
    placements = [placement("main", rank, f"n{rank + 1}", *range(share)) for rank, share in enumerate(shares)]
    launched = launch(f"slots: {sum(shares)}\ncommand: torchrun\n", NODES, placements)
    assert sum(int(worker.env["N_PROC"]) for worker in workers(launched)) == sum(shares)


def test_replicas_one_on_each_node() -> None:
    """NNODES x N_PROC is the number of processes."""
    source = "replicas: 2\nprocesses:\n  - {command: a, resources: 2}\n  - {command: b, resources: 1}\n"
    launched = launch(
        source, NODES, [placement("main", 0, "n1", 0, 1, 2), placement("main", 1, "n2", 4, 6, 7)]
    )
    assert [worker.name for worker in workers(launched)] == ["main.0.0", "main.0.1", "main.1.0", "main.1.1"]
    assert {(worker.env["NNODES"], worker.env["N_PROC"]) for worker in workers(launched)} == {("2", "2")}
    assert [worker.env["NODE_RANK"] for worker in workers(launched)] == ["0", "0", "1", "1"]


def test_each_process_sees_exactly_its_own_slots() -> None:
    """C9: CUDA_VISIBLE_DEVICES is exactly the assigned devices."""
    source = "replicas: 2\nprocesses:\n  - {command: a, resources: 2}\n  - {command: b, resources: 1}\n"
    launched = launch(
        source, NODES, [placement("main", 0, "n1", 0, 1, 2), placement("main", 1, "n2", 4, 6, 7)]
    )
    visible = [worker.env["CUDA_VISIBLE_DEVICES"] for worker in workers(launched)]
    assert visible == ["0,1", "2", "4,6", "7"]
    assert [worker.slots for worker in workers(launched)] == [(0, 1), (2,), (4, 6), (7,)]


def test_no_slots_no_visible_devices() -> None:
    """C3: a process without resources gets none; an unset variable would show them all."""
    (worker,) = workers(launch("command: hostname", NODES, [placement("main", 0, "n1")]))
    assert worker.env["CUDA_VISIBLE_DEVICES"] == ""
    assert (worker.env["NNODES"], worker.env["NODE_RANK"], worker.env["N_PROC"]) == ("1", "0", "1")


def test_packed_replicas_share_a_node() -> None:
    """C2: four replicas of two slots on a node of eight."""
    placements = [placement("main", index, "n1", 2 * index, 2 * index + 1) for index in range(4)]
    found = workers(launch("replicas: 4\nresources: 2\ncommand: a", NODES, placements))
    assert [worker.env["TARMAC_REPLICA"] for worker in found] == ["0", "1", "2", "3"]
    shared = {(worker.env["NNODES"], worker.env["NODE_RANK"], worker.env["N_PROC"]) for worker in found}
    assert shared == {("1", "0", "4")}


def test_ranks_count_within_the_role_and_the_master_is_one_for_all() -> None:
    source = "roles:\n  a: {slots: 2, command: x}\n  b: {replicas: 2, resources: 1, command: y}\n"
    placements = [placement("a", 0, "n1", 0, 1), placement("b", 0, "n3", 0), placement("b", 1, "n2", 0)]
    launched = launch(source, NODES, placements)
    ranks = {worker.name: (worker.env["NODE_RANK"], worker.env["NNODES"]) for worker in workers(launched)}
    assert ranks == {"a.0.0": ("0", "1"), "b.0.0": ("0", "2"), "b.1.0": ("1", "2")}
    assert {worker.env["MASTER_ADDR"] for worker in workers(launched)} == {"10.0.0.1"}
    assert [item.rank for item in launched.nodes] == [0, 1, 2]


@given(
    needs=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    places=st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=1, max_size=6),
)
def test_every_granted_slot_is_seen_by_exactly_one_worker(needs: list[int], places: list[str]) -> None:
    """C2, C9: whatever the packing, no slot is lost and none is seen twice."""
    processes = "".join(f"  - {{command: a, resources: {need}}}\n" for need in needs)
    free = {place: iter(range(100)) for place in places}
    placements = [
        placement("main", replica, place, *(next(free[place]) for _ in range(sum(needs))))
        for replica, place in enumerate(places)
    ]
    launched = launch(f"replicas: {len(places)}\nprocesses:\n{processes}", NODES, placements)
    granted = sorted((item.node, slot) for item in placements for slot in item.slots)
    seen = sorted(
        (item.node, slot) for item in launched.nodes for worker in item.workers for slot in worker.slots
    )
    assert seen == granted
    for worker in workers(launched):
        assert worker.env["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, worker.slots))
    on_each = {item.node: int(item.workers[0].env["N_PROC"]) for item in launched.nodes}
    assert sum(on_each.values()) == len(places) * len(needs)


def test_rank_is_left_to_the_program() -> None:
    (worker,) = workers(launch("command: hostname", NODES, [placement("main", 0, "n1")]))
    assert "RANK" not in worker.env


def test_where_nobody_knows_the_nodes_yet_stand_ins_say_where_workers_meet() -> None:
    """The runners put addresses and port in their place."""
    nodes = [node(rank_name(rank), late_address(rank)) for rank in range(2)]
    placements = [placement("main", rank, rank_name(rank), 0) for rank in range(2)]
    launched = launch("slots: 2\ncommand: torchrun\n", nodes, placements, master_port=None)
    found = {(worker.env["MASTER_ADDR"], worker.env["MASTER_PORT"]) for worker in workers(launched)}
    assert found == {("rank-0.tarmac.invalid", "port.tarmac.invalid")}
