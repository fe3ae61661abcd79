"""The Clusterfudge dialect: how it is recognised, and who reads it. Listed in `dialects.registry`."""

from __future__ import annotations

from tarmac.dialects.clusterfudge.conventions import apply_conventions
from tarmac.dialects.clusterfudge.fields import KIND, MARK, REQUEST
from tarmac.dialects.clusterfudge.reader import NAME, read_request
from tarmac.dialects.clusterfudge.script import is_launch_script
from tarmac.dialects.clusterfudge.statuses import status_word
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Extras, Reading, Report
from tarmac.dialects.located import Items, Table
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run


class ClusterfudgeDialect:
    """Launch requests; a launch script is recognised, and refused with what to do with it."""

    name = NAME

    def detect(self, filename: str, text: str) -> Detection:
        """Certain of a mapping with the mark of a request, and of a script that makes one."""
        if is_launch_script(text):
            return Detection(certainty=Certainty.CERTAIN)
        tree = compose(text, Problems(filename)) if MARK in text or '"jobs"' in text else None
        if isinstance(tree, Table):
            fields = {key.text: value for key, value in tree.entries}
            if MARK in fields:
                return Detection(certainty=Certainty.CERTAIN)
            if isinstance(fields.get("jobs"), Items) and fields.keys() <= REQUEST.known:
                return Detection(certainty=Certainty.POSSIBLE)
        return Detection(
            certainty=Certainty.NO, missed=f"no launch request ('{MARK}: {KIND}') and no launch script"
        )

    def read(self, text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
        refuse_extras(extras, filename=filename, dialect=NAME)
        if is_launch_script(text):
            raise InvalidInput([launch_script_problem(filename)])
        return read_request(text, filename=filename, directory=directory)

    def apply_conventions(self, run: Run, _attempt: Attempt, launch: Launch) -> Launch:
        return apply_conventions(run, launch)

    def status(self, report: Report) -> str:
        return status_word(report)


def launch_script_problem(filename: str) -> Problem:
    """What to say of a launch script that is given where a run file is wanted."""
    return Problem(
        message="this is a Clusterfudge launch script: a program that is started, not a file that is read",
        file=filename,
        hint=f"tarmac launch {filename} runs it as it is; with --dry-run it prints the native run file",
    )
