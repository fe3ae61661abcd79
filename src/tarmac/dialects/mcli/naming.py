"""Run names as MCLI wants them: small letters, digits and dashes, with room for the end to come."""

from __future__ import annotations

import re

from tarmac.dialects.mcli.kinds import words
from tarmac.dialects.section import Section, where

LONGEST = 56
"""Of what users write: 63 are allowed in all, and the server adds a dash and six characters."""

_VALID = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


def read_name(run: Section, warnings: list[str], *, given: bool = False) -> str:
    """The name, made valid with a warning; `given`: the user gives one elsewhere, so that none is missed."""
    value = run.get("name")
    if value is None and given:
        return "run"
    if value is None:
        run.missing("name", "a run name must be provided using the keyword name, or by --name")
        return "run"
    written = value.read(words("a name"), None)
    if written is None:
        return "run"
    name = re.sub(r"[^a-z0-9]+", "-", written.lower(), flags=re.ASCII).strip("-")
    name = written if _VALID.fullmatch(written) else name
    if not name:
        value.refuse(
            f"{written!r} has no letter or digit", "a name has small letters, digits and '-', such as my-run"
        )
        return "run"
    if len(name) > LONGEST:
        value.refuse(
            f"the name has {len(name)} characters and {LONGEST} are allowed, for the run's own end is added",
            f"{name[:LONGEST].rstrip('-')!r} would do",
        )
        return "run"
    if name != written:
        warnings.append(
            f"{where(value)}{written!r} becomes {name!r}: names have small letters, digits and '-' only"
        )
    return name
