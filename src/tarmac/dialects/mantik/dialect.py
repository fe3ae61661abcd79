"""The dialect `mantik`: how it is recognised, who reads it, its words. Listed in `dialects.registry`."""

from __future__ import annotations

from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Extras, Reading, Report
from tarmac.dialects.located import Table, quote
from tarmac.dialects.mantik.fields import CONFIG, FIRECREST, RESOURCES
from tarmac.dialects.mantik.reader import NAME, read_mantik
from tarmac.dialects.mantik.statuses import status_word
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run


class MantikDialect:
    """Compute backend configurations of Mantik, in YAML or JSON."""

    name = NAME

    def detect(self, filename: str, text: str) -> Detection:
        """Certain of a site and resources (or an environment), possible where either stands alone.

        The one key that nobody else has is known in small letters, too: the reader says how it is spelt.
        """
        problems = Problems(filename)
        tree = compose(text, problems, lenient=True)
        if tree is None:
            return Detection(certainty=Certainty.NO, missed=str(problems.first))
        if not isinstance(tree, Table):
            return Detection(certainty=Certainty.NO, missed=f"keys are expected, not {quote(tree)}")
        parts = {key.text: value for key, value in tree.entries}
        site = parts.keys() & {"UnicoreApiUrl", "Firecrest", "SSH"}
        rest = parts.keys() & (CONFIG.known - {"UnicoreApiUrl", "Firecrest", "SSH"})
        if (
            (site and rest)
            or _UNMISTAKABLE in {key.lower() for key in parts}
            or _has(parts.get("Resources"), RESOURCES.known)
        ):
            return Detection(certainty=Certainty.CERTAIN)
        if site or rest or _has(tree, FIRECREST.known - {"Machine"}):
            return Detection(certainty=Certainty.POSSIBLE)
        return Detection(
            certainty=Certainty.NO, missed="it has neither 'UnicoreApiUrl' nor 'Firecrest' nor 'Resources'"
        )

    def read(self, text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
        return read_mantik(text, filename=filename, directory=directory, extras=extras)

    def apply_conventions(self, _run: Run, _attempt: Attempt, launch: Launch) -> Launch:
        """Nothing more: what a batch script sets stands in the script that `launch` makes for a site."""
        return launch

    def status(self, report: Report) -> str:
        return status_word(report)


_UNMISTAKABLE = "unicoreapiurl"


def _has(node: object, keys: frozenset[str]) -> bool:
    return isinstance(node, Table) and any(key.text in keys for key, _ in node.entries)
