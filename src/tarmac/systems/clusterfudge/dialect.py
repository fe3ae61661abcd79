"""The Clusterfudge dialect: launch requests. Listed in `systems.registry`.

The dialect recognises a launch script and refuses it with a hint.
"""

from collections.abc import Mapping

from tarmac.dialects.conventions import with_variables
from tarmac.dialects.dialect import (
    CERTAIN,
    NO_EXTRAS,
    POSSIBLE,
    Detection,
    Dialect,
    Extras,
    Reading,
    not_ours,
)
from tarmac.dialects.located import Items, Table
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch
from tarmac.systems.clusterfudge.fields import KIND, MARK, REQUEST
from tarmac.systems.clusterfudge.identity import launch_uuid
from tarmac.systems.clusterfudge.reader import NAME, read_request
from tarmac.systems.clusterfudge.script import is_launch_script
from tarmac.systems.clusterfudge.statuses import status

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


def launch_script_problem(filename: str) -> Problem:
    """The problem with a launch script that is given in place of a run file."""
    return Problem(
        message="this is a Clusterfudge launch script: a program that is started, not a file that is read",
        file=filename,
        hint=f"tarmac launch {filename} runs it as it is; with --dry-run it prints the native run file",
    )


def _detect(filename: str, text: str) -> Detection:
    """Certain for a mapping with the mark of a request, and for a script that makes launches."""
    if is_launch_script(text):
        return CERTAIN
    tree = compose(text, Problems(filename)) if MARK in text or '"jobs"' in text else None
    if isinstance(tree, Table):
        fields = tree.values
        if MARK in fields:
            return CERTAIN
        if isinstance(fields.get("jobs"), Items) and fields.keys() <= REQUEST.known:
            return POSSIBLE
    return not_ours(f"no launch request ('{MARK}: {KIND}') and no launch script")


def _read(text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    if is_launch_script(text):
        raise InvalidInput([launch_script_problem(filename)])
    return read_request(text, filename=filename, directory=directory, extras=extras)


CLUSTERFUDGE = Dialect(
    name=NAME, detect=_detect, read=_read, apply_conventions=apply_conventions, status=status
)
