"""Adds the variables that Clusterfudge gives each process (C9) to a launch. Called by the dialect.

docs/using/dialects/clusterfudge.md explains the variables (a test compares).
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.dialects.conventions import with_variables
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch
from tarmac.systems.clusterfudge.identity import launch_uuid

LAUNCH_ID = "CLUSTERFUDGE_LAUNCH_ID"
ROLE_NAME = "CLUSTERFUDGE_JOB_NAME"
REPLICA_INDEX = "CLUSTERFUDGE_REPLICA_INDEX"
REPLICA_COUNT = "CLUSTERFUDGE_REPLICA_COUNT"
PROCESS_COUNT = "CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS"
PROCESS_INDEX = "CLUSTERFUDGE_PROCESS_INDEX"
GLOBAL_INDEX = "CLUSTERFUDGE_PROCESS_INDEX_ACROSS_ALL_REPLICAS"
FIRST_INDEX = "CLUSTERFUDGE_TASK_ID"


_Key = tuple[str, int, int]


def apply_conventions(run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The launch with the variables for every worker, each with its own directory (C8)."""
    counted: dict[str, list[_Key]] = {}
    replicas: dict[str, set[int]] = {}
    for node in launch.nodes:
        for worker in node.workers:
            counted.setdefault(worker.role, []).append(_key(worker))
            replicas.setdefault(worker.role, set()).add(worker.replica)
    for placements in counted.values():
        placements.sort()
    names = run.spec.conventions.facts.get("short_names", {})
    shown_names = names if isinstance(names, Mapping) else {}

    def family(node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        here = sorted(_key(item) for item in node.workers if item.role == worker.role)
        return {
            LAUNCH_ID: launch_uuid(run.id),
            ROLE_NAME: str(shown_names.get(worker.role, worker.role)),
            REPLICA_INDEX: str(worker.replica),
            REPLICA_COUNT: str(len(replicas[worker.role])),
            PROCESS_COUNT: str(len(counted[worker.role])),
            PROCESS_INDEX: str(here.index(_key(worker))),
            GLOBAL_INDEX: str(counted[worker.role].index(_key(worker))),
            FIRST_INDEX: str(worker.replica),
        }

    return with_variables(launch, family)._replace(own_directories=True)


def _key(worker: WorkerLaunch) -> _Key:
    return worker.role, worker.replica, worker.worker
