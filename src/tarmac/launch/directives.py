"""The lines of a job script that `sbatch` reads: the one place that writes and quotes them. Pure.

Called by `batch_script`, for sites, and by the engine of a Slurm, for its jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tarmac.model.errors import InvalidInput

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*&|-]+", re.ASCII)


def directive_lines(directives: Mapping[str, str]) -> list[str]:
    """A line for each directive; "" means without a value."""
    return [
        f"#SBATCH --{name}={quoted(value)}" if value else f"#SBATCH --{name}"
        for name, value in directives.items()
    ]


def amended(directives: Mapping[str, str], *changes: Mapping[str, str | None]) -> dict[str, str]:
    """The directives with these changes: None drops a directive; later changes win."""
    found: dict[str, str | None] = dict(directives)
    for change in changes:
        found |= change
    return {name: value for name, value in found.items() if value is not None}


def quoted(value: str) -> str:
    """A value as `sbatch` reads it back: in quotes a backslash makes any character literal.

    Raises InvalidInput for text that is not one printable line.
    """
    if not value.isprintable():
        raise InvalidInput(f"{value!r} cannot be asked of a batch system: it is not one line of text")
    if _PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
