"""The native dialect: how it is recognised, and who reads it. Listed in `spec.dialects`, which calls it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run
from tarmac.spec.dialect import NO_EXTRAS, Certainty, Detection, Extras, Reading, Report
from tarmac.spec.equipping import refuse_extras
from tarmac.spec.located import Node, Table, shown
from tarmac.spec.native.fields import RUN
from tarmac.spec.native.reader import NAME, read_native
from tarmac.spec.problems import Problems
from tarmac.spec.yaml_tree import compose


class NativeDialect:
    """tarmac's own YAML."""

    name = NAME

    def detect(self, filename: str, text: str) -> Detection:
        """Certain of a mapping of known fields with something to execute; possible where any field is known.

        A text that is not YAML has no content to judge: there its name must do, so that the reader can
        say where it breaks.
        """
        problems = Problems(filename)
        tree = compose(text, problems)
        if tree is not None:
            return _judge(tree)
        if filename.endswith((".yaml", ".yml")):
            return Detection(certainty=Certainty.POSSIBLE)
        return Detection(certainty=Certainty.NO, missed=str(problems.first))

    def read(self, text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
        refuse_extras(extras, filename=filename, dialect=NAME)
        return read_native(text, filename=filename, directory=directory)

    def companions(self, _text: str) -> Sequence[str]:
        return ()

    def equip(self, _run: Run, _attempt: Attempt, launch: Launch) -> Launch:
        """Nothing beyond what every worker gets."""
        return launch

    def status(self, report: Report) -> str:
        """tarmac's own word."""
        return (report.outcome or report.state).value


def _judge(tree: Node) -> Detection:
    if not isinstance(tree, Table):
        return Detection(
            certainty=Certainty.NO, missed=f"fields such as 'command: ...' are expected, not {shown(tree)}"
        )
    keys = {key.text for key, _ in tree.entries}
    ours = RUN.known | RUN.later
    if keys <= ours and keys & {"command", "roles", "processes"}:
        return Detection(certainty=Certainty.CERTAIN)
    if any(key in ours or key in RUN.synonyms or get_close_matches(key, ours, n=1) for key in keys):
        return Detection(certainty=Certainty.POSSIBLE)
    found = ", ".join(repr(key)[:40] for key in sorted(keys)[:5]) or "nothing"
    return Detection(certainty=Certainty.NO, missed=f"none of its fields is known (found: {found})")
