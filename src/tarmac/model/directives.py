"""Batch job directives that a person may add, change or drop: their names and allowed values.

Checked by the reader of run files, by overrides, and by the engine that reads the settings of a cluster.
Rendered by `launch.directives`.
"""

from __future__ import annotations

import re
from typing import Any

from tarmac.model.errors import InvalidInput
from tarmac.model.text import listed

RESERVED = frozenset(
    {
        "job-name",
        "comment",
        "output",
        "error",
        "open-mode",
        "requeue",
        "no-requeue",
        "nodes",
        "array",
        "export",
    }
    | {"ntasks", "ntasks-per-node", "parsable", "wrap", "chdir", "het-group", "input", "test-only", "wait"}
)
"""Directives that the engine itself sets, to find an attempt again and to start it once."""

OF_THE_POOL = "partition"
"""The directive that a run sets by naming a pool."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,60}")
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@%+=*/&|()\[\]-][A-Za-z0-9_.,:;@%+=*/&|()\[\] -]{0,500}")


def check_name(name: Any) -> str:
    """The name of a directive; raises InvalidInput for an invalid name, and for tarmac's own directives."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.100} is no directive", hint="such as 'constraint'")
    if name in RESERVED:
        raise InvalidInput(
            f"{name!r} is set by tarmac itself",
            hint=f"not to be changed: {listed(sorted(RESERVED), len(RESERVED))}",
        )
    return name


def check_value(value: Any) -> str | None:
    """The value of a directive: "" if it has none, None if it is dropped. Raises InvalidInput."""
    if value is None or value is False:
        return None
    text = "" if value is True else str(value)
    if text and not _VALUE.fullmatch(text):
        raise InvalidInput(
            f"{text!r:.200} is not allowed",
            hint="no quotes, backslashes, '#', '$' or control characters; null drops a directive",
        )
    return text
