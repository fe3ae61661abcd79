"""The ISC's dialect: how it is recognised, who reads it, what its runs get. Listed in `dialects.registry`."""

from __future__ import annotations

from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Extras, Reading, Report
from tarmac.dialects.isc import statuses
from tarmac.dialects.isc.conventions import apply_conventions
from tarmac.dialects.isc.fields import RETIRED, RUN, keys_of_lines, only_credentials
from tarmac.dialects.isc.reader import NAME, read_isc
from tarmac.dialects.problems import Problems
from tarmac.dialects.toml_tree import compose
from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run


class IscDialect:
    """Strong Compute ISC: TOML of whatever name, `.isc` by convention."""

    name = NAME

    def detect(self, filename: str, text: str) -> Detection:
        """Certain of a key that nobody else has; possible of any of its keys, or of broken TOML by name.

        A file of credentials is its own as well: nobody else would know that none of it may be repeated.
        """
        problems = Problems(filename)
        tree = compose(text, problems)
        broken = bool(problems)
        keys = {key.text for key, _ in tree.entries} if tree is not None else set()
        keys |= keys_of_lines(text, "=") if broken else set()
        if keys & _OWN or (not broken and {"command", "gpus"} <= keys):
            return Detection(certainty=Certainty.CERTAIN)
        ours = keys & (RUN.known | RETIRED) or only_credentials(keys)
        if ours or (broken and filename.endswith((".isc", ".toml"))):
            return Detection(certainty=Certainty.POSSIBLE)
        if broken:
            return Detection(certainty=Certainty.NO, missed=str(problems.first))
        found = ", ".join(repr(key)[:40] for key in sorted(keys)[:5]) or "nothing"
        missed = f'keys such as experiment_name = "..." are expected (found: {found})'
        return Detection(certainty=Certainty.NO, missed=missed)

    def read(self, text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:  # noqa: ARG002
        refuse_extras(extras, filename=filename, dialect=NAME)
        return read_isc(text, filename=filename)

    def apply_conventions(self, run: Run, attempt: Attempt, launch: Launch) -> Launch:
        return apply_conventions(run, attempt, launch)

    def status(self, report: Report) -> str:
        return statuses.status(report)


_OWN = frozenset(
    {"isc_project_id", "experiment_name", "compute_mode", "max_rapid_cycles"} | {"dataset_id_list"}
)
"""Keys that no other run file has."""
