"""The ISC's dialect: TOML under any file name, `.isc` by convention. Listed in `systems.registry`."""

import re

from tarmac.dialects.dialect import Certainty, Detection, Dialect
from tarmac.dialects.located import Problems
from tarmac.dialects.toml_tree import compose
from tarmac.model.errors import Problem
from tarmac.systems.isc.conventions import apply_conventions
from tarmac.systems.isc.fields import only_credentials
from tarmac.systems.isc.reader import NAME, RUN, read_isc
from tarmac.systems.isc.statuses import COLUMNS, status


def _detect(filename: str, text: str) -> Detection:
    """Certain for a key that no other dialect has; possible for any ISC key, or for broken TOML named `.isc`.

    The dialect also claims a credentials file: no other reader would know that none of it may be quoted.
    """
    problems = Problems(filename)
    tree = compose(text, problems)
    broken = bool(problems)
    keys = {key.text for key, _ in tree.entries} if tree is not None else set()
    keys |= set(_KEY.findall(text)) if broken else set()
    if keys & _OWN or (not broken and {"command", "gpus"} <= keys):
        return Certainty.CERTAIN
    ours = keys & RUN.fields.keys() or only_credentials(keys)
    if ours or (broken and filename.endswith((".isc", ".toml"))):
        return Certainty.POSSIBLE
    if broken:
        return problems.found[0]
    found = ", ".join(repr(key)[:40] for key in sorted(keys)[:5]) or "nothing"
    return Problem(message=f'keys such as experiment_name = "..." are expected (found: {found})')


_KEY = re.compile(r"^([A-Za-z_]+)[ \t]*=(?!=)", re.ASCII | re.MULTILINE)
"""Likely keys at the beginning of lines, for a text that does not parse."""

_OWN = frozenset(
    {"isc_project_id", "experiment_name", "compute_mode", "max_rapid_cycles"} | {"dataset_id_list"}
)
"""Keys that no other run file has."""

ISC = Dialect(
    name=NAME,
    detect=_detect,
    read=read_isc,
    apply_conventions=apply_conventions,
    status=status,
    columns=COLUMNS,
    own_packages=True,
)
