"""The variables of Clusterfudge over launches put together by hand: no server, no nodes."""

from __future__ import annotations

import pages
from histories import attempt_of
from tarmac.client.launching import json_text
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch
from tarmac.systems.clusterfudge.dialect import apply_conventions
from tarmac.systems.clusterfudge.identity import launch_uuid
from tarmac.systems.registry import read

REQUEST = {
    "clusterfudge": "CreateLaunchRequest",
    "jobs": [
        {"short_name": "my job", "replicas": 3, "processes": [{"command": ["a"]}, {"command": ["b"]}]},
        {"short_name": "other", "replicas": 1, "processes": [{"command": ["c"]}]},
    ],
}


def worker(role: str, replica: int, index: int) -> WorkerLaunch:
    env = {"CLUSTERFUDGE_REPLICA_COUNT": "of the user's own", "PATH": "/bin"}
    return WorkerLaunch(
        role=role, replica=replica, worker=index, argv=("a",), env=env, slots=(), stop_on_failure=False
    )


def launch(*nodes: tuple[WorkerLaunch, ...]) -> Launch:
    return Launch(
        attempt_id="a1",
        run_id="r1",
        run_name="mine",
        number=1,
        token="t",
        code_digest=None,
        setup=(),
        setup_env={},
        nodes=tuple(
            NodeLaunch(node=f"n{rank}", address="", rank=rank, workers=workers)
            for rank, workers in enumerate(nodes)
        ),
        time_limit_s=None,
        pause_signal=None,
        grace_s=1.0,
    )


def test_indexes_count_on_the_node_and_over_all_replicas() -> None:
    """C9: replicas 0 and 2 share a node, in whatever order their workers stand there."""
    spec = read(json_text(REQUEST), filename="a.json", directory="/", dialect="clusterfudge").spec
    run = Run(id="r1", spec=spec, user="ada", state=RunState.RUNNING, seq=1, created_at=0.0, queued_at=0.0)
    role = spec.roles[0].name
    shared = (
        worker(role, 2, 1),
        worker("other", 0, 0),
        worker(role, 0, 0),
        worker(role, 2, 0),
        worker(role, 0, 1),
    )
    alone = (worker(role, 1, 0), worker(role, 1, 1))
    made = apply_conventions(run, attempt_of(run), launch(shared, alone))
    assert made.own_directories, "C8"
    found = {(item.role, item.replica, item.worker): item.env for node in made.nodes for item in node.workers}
    names = ("PROCESS_INDEX", "PROCESS_INDEX_ACROSS_ALL_REPLICAS", "REPLICA_INDEX", "TASK_ID")
    told = {
        placement[1:]: tuple(env[f"CLUSTERFUDGE_{name}"] for name in names)
        for placement, env in found.items()
        if placement[0] == role
    }
    assert told == {
        (0, 0): ("0", "0", "0", "0"),
        (0, 1): ("1", "1", "0", "0"),
        (1, 0): ("0", "2", "1", "1"),
        (1, 1): ("1", "3", "1", "1"),
        (2, 0): ("2", "4", "2", "2"),
        (2, 1): ("3", "5", "2", "2"),
    }
    assert {env["CLUSTERFUDGE_LAUNCH_ID"] for env in found.values()} == {launch_uuid("r1")}
    own = found[role, 1, 0]
    family = {name for name in own if name.startswith("CLUSTERFUDGE_")}
    assert family == pages.variables("dialects/clusterfudge.md").keys()
    assert own["CLUSTERFUDGE_JOB_NAME"] == "my job"
    assert own["CLUSTERFUDGE_REPLICA_COUNT"] == "3", "what tarmac sets wins"
    assert own["CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS"] == "6"
    assert own["PATH"] == "/bin"
    other = found["other", 0, 0]
    assert (other["CLUSTERFUDGE_JOB_NAME"], other["CLUSTERFUDGE_PROCESS_INDEX"]) == ("other", "0")
    assert other["CLUSTERFUDGE_REPLICA_COUNT"] == "1"
