"""The Clusterfudge dialect: launch requests. Listed in `systems.registry`.

The dialect recognises a launch script and refuses it with a hint.
"""

import re
from collections.abc import Mapping

from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Dialect, Extras, Reading, with_variables
from tarmac.dialects.located import Items, Problems, Table
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch
from tarmac.systems.clusterfudge.fields import KIND, MARK
from tarmac.systems.clusterfudge.identity import launch_uuid
from tarmac.systems.clusterfudge.reader import NAME, REQUEST, read_request
from tarmac.systems.clusterfudge.statuses import COLUMNS, status

_Key = tuple[int, int]
"""The replica of a worker and its place in it: distinct within a role."""


def apply_conventions(run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The launch with the variables for every worker, each with its own directory (C8)."""
    placed: dict[str, list[_Key]] = {}
    for worker in sorted((worker for node in launch.nodes for worker in node.workers), key=_key):
        placed.setdefault(worker.role, []).append(_key(worker))
    names = run.spec.conventions.facts.get("short_names", {})
    shown_names = names if isinstance(names, Mapping) else {}

    def family(node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        everywhere = placed[worker.role]
        here = sorted(_key(item) for item in node.workers if item.role == worker.role)
        return {
            "CLUSTERFUDGE_LAUNCH_ID": launch_uuid(run.id),
            "CLUSTERFUDGE_JOB_NAME": str(shown_names.get(worker.role, worker.role)),
            "CLUSTERFUDGE_REPLICA_INDEX": str(worker.replica),
            "CLUSTERFUDGE_REPLICA_COUNT": str(len({replica for replica, _ in everywhere})),
            "CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS": str(len(everywhere)),
            "CLUSTERFUDGE_PROCESS_INDEX": str(here.index(_key(worker))),
            "CLUSTERFUDGE_PROCESS_INDEX_ACROSS_ALL_REPLICAS": str(everywhere.index(_key(worker))),
            "CLUSTERFUDGE_TASK_ID": str(worker.replica),
        }

    return with_variables(launch, family)._replace(own_directories=True)


def _key(worker: WorkerLaunch) -> _Key:
    return worker.replica, worker.worker


_IMPORT = re.compile(
    r"^[ \t]*(import[ \t]+([\w., \t]*[, \t])?(tarmac\.)?clusterfudge\b"
    r"|from[ \t]+(tarmac\.)?clusterfudge(\.\w+)?[ \t]+import\b"
    r"|from[ \t]+tarmac[ \t]+import[ \t(]+[\w, \t]*\bclusterfudge\b)",
    re.MULTILINE | re.ASCII,
)
_LAUNCHES = re.compile(r"\b(create_launch|CreateLaunchRequest)\b", re.ASCII)


def is_launch_script(text: str) -> bool:
    """Whether a text is a Python program that makes Clusterfudge launches."""
    return bool(_IMPORT.search(text) and _LAUNCHES.search(text))


def _detect(filename: str, text: str) -> Detection:
    """Certain for a mapping with the mark of a request, and for a script that makes launches."""
    if is_launch_script(text):
        return Certainty.CERTAIN
    tree = compose(text, Problems(filename)) if MARK in text or '"jobs"' in text else None
    if isinstance(tree, Table):
        fields = tree.values
        if MARK in fields:
            return Certainty.CERTAIN
        if isinstance(fields.get("jobs"), Items) and fields.keys() <= REQUEST.fields.keys():
            return Certainty.POSSIBLE
    return Problem(message=f"no launch request ('{MARK}: {KIND}') and no launch script")


def _read(text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    if is_launch_script(text):
        message = "this is a Clusterfudge launch script: a program that is started, not a file that is read"
        hint = f"tarmac launch {filename} runs it as it is; with --dry-run it prints the native run file"
        raise InvalidInput([Problem(message=message, file=filename, hint=hint)])
    return read_request(text, filename=filename, directory=directory, extras=extras)


def _check_program(text: str, filename: str) -> Problems | None:
    """The problems of a launch script."""
    if not is_launch_script(text):
        return None
    from tarmac.systems.clusterfudge.script import check_script  # noqa: PLC0415 - for `tarmac check` alone

    return check_script(text, filename=filename)


CLUSTERFUDGE = Dialect(
    name=NAME,
    detect=_detect,
    read=_read,
    apply_conventions=apply_conventions,
    status=status,
    columns=COLUMNS,
    check_program=_check_program,
)
