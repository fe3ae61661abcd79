"""What surrounds a worker: which layer wins, threads, loopback, virtual environments."""

from __future__ import annotations

import pytest

from launches import launch, node, placement, workers
from tarmac.launch.environment import USUAL_PATH
from tarmac.node.attempt.document import Launch

FAR = [node("n1", "10.0.0.1"), node("n2", "10.0.0.2")]


def environment(source: str, inherited: dict[str, str] | None = None) -> dict[str, str]:
    (worker,) = workers(launch(source, FAR, [placement("main", 0, "n1")], inherited))
    return dict(worker.env)


def test_a_run_elsewhere_sees_only_what_its_file_says() -> None:
    found = environment("command: hostname")
    assert found["PATH"] == USUAL_PATH
    assert "VIRTUAL_ENV" not in found
    assert "HOME" not in found  # the node's own


def test_a_run_on_the_submitters_server_finds_what_the_shell_finds() -> None:
    inherited = {"PATH": "/home/ada/.venv/bin:/bin", "VIRTUAL_ENV": "/home/ada/.venv", "CONDA_PREFIX": ""}
    found = environment("command: hostname", inherited)
    assert (found["PATH"], found["VIRTUAL_ENV"]) == ("/home/ada/.venv/bin:/bin", "/home/ada/.venv")
    assert "CONDA_PREFIX" not in found


def test_the_files_venv_comes_before_the_submitters() -> None:
    inherited = {"PATH": "/other/bin:/bin", "VIRTUAL_ENV": "/other"}
    found = environment("environment: {venv: .venv}\ncommand: hostname", inherited)
    assert found["VIRTUAL_ENV"] == "/home/ada/digits/.venv"
    assert found["PATH"] == "/home/ada/digits/.venv/bin:/other/bin:/bin"


def test_the_files_own_variables_win_over_all_defaults() -> None:
    source = (
        "env: {PATH: /mine, PYTHONUNBUFFERED: '', OMP_NUM_THREADS: 3, GLOO_SOCKET_IFNAME: eth0}\ncommand: a"
    )
    found = environment(source, {"PATH": "/bin"})
    assert (found["PATH"], found["PYTHONUNBUFFERED"]) == ("/mine", "")
    assert (found["OMP_NUM_THREADS"], found["GLOO_SOCKET_IFNAME"]) == ("3", "eth0")


def test_the_contract() -> None:
    """I14-I16 have their dialect; these every worker gets."""
    found = environment("name: digits\ncommand: hostname")
    assert (found["TARMAC_RUN_ID"], found["TARMAC_RUN_NAME"], found["TARMAC_ATTEMPT"]) == (
        "r1",
        "digits",
        "2",
    )
    assert (found["TARMAC_ROLE"], found["TARMAC_REPLICA"], found["TARMAC_WORKER"]) == ("main", "0", "0")
    assert (found["TARMAC_REPLICAS"], found["TARMAC_WORKERS"]) == ("1", "1")
    assert found["PYTHONUNBUFFERED"] == "1"


def test_setup_finds_the_same_surroundings() -> None:
    launched = launch(
        "setup: [pip install x, [python, -m, y]]\nenvironment: {venv: .venv}\nenv: {A: b}\ncommand: c",
        FAR,
        [placement("main", 0, "n1")],
    )
    assert tuple(step.argv for step in launched.setup) == (
        ("bash", "-eo", "pipefail", "-c", "pip install x"),
        ("python", "-m", "y"),
    )
    assert launched.setup_env["A"] == "b"
    assert launched.setup_env["VIRTUAL_ENV"] == "/home/ada/digits/.venv"
    assert launched.setup_env["TARMAC_RUN_ID"] == "r1"
    assert launched.setup_env.items() <= workers(launched)[0].env.items()


@pytest.mark.parametrize(
    ("addresses", "interface"),
    [
        (["127.0.0.2", "127.0.0.3"], "lo"),
        (["127.0.0.2"], "lo"),
        (["::1"], "lo"),
        (["localhost"], "lo"),
        (["127.0.0.2", "10.0.0.2"], None),
        (["node-1.example.org"], None),
    ],
)
def test_gloo_is_told_of_the_loopback(addresses: list[str], interface: str | None) -> None:
    nodes = [node(f"n{index}", address) for index, address in enumerate(addresses)]
    launched = launch(
        "slots: 2\ncommand: a",
        nodes,
        [placement("main", rank, item.name, 0) for rank, item in enumerate(nodes)],
    )
    assert {worker.env.get("GLOO_SOCKET_IFNAME") for worker in workers(launched)} == {interface}


@pytest.mark.parametrize(
    ("source", "slots", "threads"),
    [
        ("slots: 4\ncommand: a", (0, 1, 2, 3), "8"),  # 64 processors, 8 slots: 8 for each process
        ("resources: 2\ncommand: a", (0, 1), "16"),  # one process with both slots
        ("resources: {cpus: 3.5}\ncommand: a", (), "3"),
        ("resources: {cpus: 0.5}\ncommand: a", (), "1"),
        ("command: a", (), "64"),
        ("processes: [{command: a}, {command: b}]", (), "32"),
    ],
)
def test_threads_are_the_process_share_of_the_node(source: str, slots: tuple[int, ...], threads: str) -> None:
    launched = launch(source, FAR, [placement("main", 0, "n1", *slots)])
    assert {worker.env["OMP_NUM_THREADS"] for worker in workers(launched)} == {threads}


def test_rehearsed_nodes_share_the_processors_of_one_machine() -> None:
    nodes = [node("n1", "127.0.0.2", slots=1, cpus=8), node("n2", "127.0.0.3", slots=1, cpus=8)]
    launched = launch(
        "slots: 2\ncommand: a", nodes, [placement("main", 0, "n1", 0), placement("main", 1, "n2", 0)]
    )
    assert [worker.env["OMP_NUM_THREADS"] for worker in workers(launched)] == ["4", "4"]


def test_a_launch_carries_the_policy_of_the_run() -> None:
    launched: Launch = launch(
        "time_limit: 10m\npause: {signal: none, grace: 5s}\non_failure: continue\ncommand: a",
        FAR,
        [placement("main", 0, "n1")],
    )
    assert (launched.attempt_id, launched.number, launched.token) == ("r1.2", 2, "secret")
    assert (launched.time_limit_s, launched.pause_signal, launched.grace_s) == (600, None, 5)
    assert launched.code_digest == "sha256-0"
    assert [worker.stop_on_failure for worker in workers(launched)] == [False]


@pytest.mark.parametrize(
    ("mode", "allotted_s", "told"),
    [
        ("batch", None, {}),
        ("batch", 90.0, {"TARMAC_ALLOTTED_MS": "90000"}),
        (
            "cycle",
            90.0,
            {
                "TARMAC_ALLOTTED_MS": "90000",
                "STRONG_COMPUTE_MODE": "cycle",
                "STRONG_CYCLE_COUNT": "2",
                "STRONG_CYCLE_TIME_MS": "90000",
            },
        ),
        (
            "interruptible",
            1234.5678,
            {
                "TARMAC_ALLOTTED_MS": "1234568",
                "STRONG_COMPUTE_MODE": "interruptible",
                "STRONG_CYCLE_COUNT": "2",
                "STRONG_CYCLE_TIME_MS": "1234568",
            },
        ),
    ],
)
def test_workers_are_told_how_long_they_have(
    mode: str, allotted_s: float | None, told: dict[str, str]
) -> None:
    """I15: the mode, the number of the start, and the truth about the time."""
    launched = launch(f"mode: {mode}\ncommand: a", FAR, [placement("main", 0, "n1")], allotted_s=allotted_s)
    names = {"TARMAC_ALLOTTED_MS", "STRONG_COMPUTE_MODE", "STRONG_CYCLE_COUNT", "STRONG_CYCLE_TIME_MS"}
    (worker,) = workers(launched)
    assert {name: value for name, value in worker.env.items() if name in names} == told
    assert launched.allotted_s == allotted_s
    assert launched.allots_setup == (mode != "cycle"), "a turn begins when its workers run"


def test_the_time_limit_is_of_all_attempts_together() -> None:
    launched = launch("time_limit: 100s\ncommand: a", FAR, [placement("main", 0, "n1")], ran_s=60.0)
    assert (launched.time_limit_s, launched.ran_s) == (40.0, 60.0)
    spent = launch("time_limit: 100s\ncommand: a", FAR, [placement("main", 0, "n1")], ran_s=100.0)
    assert spent.time_limit_s is not None
    assert 0 < spent.time_limit_s <= 1, "it ends by its limit, and is told so"
