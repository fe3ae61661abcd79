"""Launchers: one process for each slot, and what each finds (D2, native)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pages
from launches import launch, node, placement, workers

NODES = [node("n1", "10.0.0.1"), node("n2", "10.0.0.2")]
FOUR = [placement("main", 0, "n1", 2, 3), placement("main", 1, "n2", 4, 5)]


def ranked(launcher: str) -> list[dict[str, str]]:
    launched = launch(f"slots: 4\nlauncher: {launcher}\ncommand: python train.py\n", NODES, FOUR)
    return [dict(worker.env) for worker in workers(launched)]


def family(environments: list[dict[str, str]], *names: str) -> list[tuple[str, ...]]:
    return [tuple(environment[name] for name in names) for environment in environments]


@pytest.mark.parametrize("launcher", ["torch", "deepspeed", "accelerate", "jax", "horovod", "plain"])
def test_one_process_for_each_slot_with_its_place(launcher: str) -> None:
    """D2: rank and chief address of every worker."""
    environments = ranked(launcher)
    assert family(environments, "RANK", "LOCAL_RANK", "NODE_RANK", "TARMAC_REPLICA", "TARMAC_WORKER") == [
        ("0", "0", "0", "0", "0"),
        ("1", "1", "0", "0", "1"),
        ("2", "0", "1", "1", "0"),
        ("3", "1", "1", "1", "1"),
    ]
    same = family(environments, "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NNODES", "N_PROC", "TARMAC_WORKERS")
    assert set(same) == {("4", "2", "2", "2", "2")}
    assert set(family(environments, "MASTER_ADDR", "MASTER_PORT")) == {("10.0.0.1", "29501")}
    assert set(family(environments, "TARMAC_LAUNCHER")) == {(launcher,)}


@pytest.mark.parametrize(
    ("launcher", "seen"),
    [
        ("torch", ["2,3", "2,3", "4,5", "4,5"]),
        ("deepspeed", ["2,3", "2,3", "4,5", "4,5"]),
        ("accelerate", ["2,3", "2,3", "4,5", "4,5"]),
        ("jax", ["2", "3", "4", "5"]),
        ("horovod", ["2,3", "2,3", "4,5", "4,5"]),
        ("plain", ["2", "3", "4", "5"]),
    ],
)
def test_devices_are_seen_as_the_users_of_each_launcher_expect(launcher: str, seen: list[str]) -> None:
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in ranked(launcher)] == seen


def test_each_process_holds_one_slot_and_its_share_of_the_processors() -> None:
    launched = launch("slots: 4\nlauncher: torch\ncommand: a\n", NODES, FOUR)
    assert [worker.slots for worker in workers(launched)] == [(2,), (3,), (4,), (5,)]
    assert [worker.rank for worker in workers(launched)] == [0, 1, 2, 3]
    assert {worker.env["OMP_NUM_THREADS"] for worker in workers(launched)} == {"8"}  # 64 over 8 slots


def test_what_torch_deepspeed_and_jax_read() -> None:
    torch, deepspeed, jax = ranked("torch")[3], ranked("deepspeed")[3], ranked("jax")[3]
    assert family([torch], "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE") == [
        ("1", "2", "3", "4")
    ]
    assert torch["TORCHELASTIC_RUN_ID"] == "r1"
    assert family([deepspeed], "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE") == [("1", "2", "2")]
    assert family([jax], "JAX_COORDINATOR_ADDRESS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") == [
        ("10.0.0.1:29501", "3", "4")
    ]


def test_what_horovod_reads() -> None:
    """What `horovodrun --gloo` sets; the first process has the place where all meet beside it."""
    launched = workers(launch("slots: 4\nlauncher: horovod\ncommand: [python, train.py]\n", NODES, FOUR))
    last = {name: value for name, value in launched[3].env.items() if name.startswith("HOROVOD_")}
    assert last == {
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_HOSTNAME": "n2",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "29501",
    }
    assert launched[0].argv[-3:] == ("rendezvous", "python", "train.py")
    assert [worker.argv for worker in launched[1:]] == [("python", "train.py")] * 3


def test_horovod_connects_by_the_interface_that_gloo_is_given() -> None:
    source = "slots: 4\nlauncher: horovod\ncommand: a\nenv: {GLOO_SOCKET_IFNAME: ib0}\n"
    assert {worker.env["HOROVOD_GLOO_IFACE"] for worker in workers(launch(source, NODES, FOUR))} == {"ib0"}


def test_replicas_have_a_process_for_each_slot_and_share_what_they_asked_for() -> None:
    source = "replicas: 2\nlauncher: torch\ncommand: a\nresources: {slots: 2, cpus: 6, memory: 8GiB}\n"
    both = [placement("main", 0, "n1", 0, 1), placement("main", 1, "n1", 6, 7)]
    launched = workers(launch(source, NODES, both))
    assert [worker.name for worker in launched] == ["main.0.0", "main.0.1", "main.1.0", "main.1.1"]
    assert [worker.env["LOCAL_RANK"] for worker in launched] == ["0", "1", "2", "3"]
    assert {worker.env["CUDA_VISIBLE_DEVICES"] for worker in launched} == {"0,1,6,7"}
    assert {(worker.cpus, worker.memory_bytes) for worker in launched} == {(3.0, 4 << 30)}
    assert {worker.env["OMP_NUM_THREADS"] for worker in launched} == {"3"}


def test_a_replica_without_slots_is_one_process() -> None:
    launched = workers(
        launch(
            "replicas: 2\nlauncher: torch\ncommand: a\n",
            NODES,
            [placement("main", 0, "n1"), placement("main", 1, "n2")],
        )
    )
    assert [(worker.rank, worker.env["WORLD_SIZE"]) for worker in launched] == [(0, "2"), (1, "2")]


def test_a_role_meets_at_its_own_first_node() -> None:
    source = (
        "roles:\n  data: {command: serve}\n  trainer: {slots: 2, launcher: torch, command: python train.py}\n"
    )
    launched = workers(
        launch(source, NODES, [placement("data", 0, "n1"), placement("trainer", 0, "n2", 0, 1)])
    )
    addresses = {(worker.role, worker.env["MASTER_ADDR"]) for worker in launched}
    assert addresses == {("data", "10.0.0.1"), ("trainer", "10.0.0.2")}
    assert "RANK" not in launched[0].env


@given(st.lists(st.integers(1, 8), min_size=1, max_size=2))
def test_ranks_are_all_there_over_uneven_nodes(shares: list[int]) -> None:
    placements = [placement("main", at, f"n{at + 1}", *range(share)) for at, share in enumerate(shares)]
    source = f"slots: {sum(shares)}\nuneven: true\nlauncher: torch\ncommand: a\n"
    launched = workers(launch(source, NODES, placements))
    assert [worker.rank for worker in launched] == list(range(sum(shares)))
    assert {worker.env["WORLD_SIZE"] for worker in launched} == {str(sum(shares))}


def test_the_page_lists_what_launchers_set() -> None:
    """docs/using/variables.md, "With a launcher"."""
    without = set(workers(launch("slots: 4\ncommand: a\n", NODES, FOUR))[0].env)
    names = ("torch", "deepspeed", "accelerate", "jax", "horovod", "plain")
    given = set().union(*(ranked(name)[0] for name in names)) | {"HOROVOD_GLOO_IFACE"}
    assert given - without == set(pages.variables("variables.md", "## With a launcher"))
