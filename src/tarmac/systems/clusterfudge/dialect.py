"""The Clusterfudge dialect: launch requests. Listed in `systems.registry`.

The dialect recognises a launch script and refuses it with a hint.
"""

from __future__ import annotations

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
from tarmac.systems.clusterfudge.conventions import apply_conventions
from tarmac.systems.clusterfudge.fields import KIND, MARK, REQUEST
from tarmac.systems.clusterfudge.reader import NAME, read_request
from tarmac.systems.clusterfudge.script import is_launch_script
from tarmac.systems.clusterfudge.statuses import status


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
