"""How to read a run file: its dialect, and accompanying files. For `run`, `check` and `convert`.

The files beside a run file that a dialect may request are few and small: they are always sent, because only
the server knows the dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tarmac.cli.options import pairs_option, together

COMPANIONS = frozenset({"mlproject"})
"""Names of such files, in lower case."""

_LARGEST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """The options for reading a run file."""

    dialect: str | None = None
    entry_point: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)

    def extras(self, directory: str) -> dict[str, Any]:
        """The `extras` of docs/using/api.md for a run file in this directory."""
        extras: dict[str, Any] = {"files": companions(Path(directory)), "changes": dict(self.changes)}
        if self.entry_point is not None:
            extras["entry_point"] = self.entry_point
        if self.parameters:
            extras["parameters"] = dict(self.parameters)
        return {name: value for name, value in extras.items() if value}


reading_options = together(
    click.option(
        "--dialect",
        metavar="NAME",
        help="Read it as native, isc, mcli, determined, clusterfudge or mantik; else its content says.",
    ),
    click.option(
        "--entry-point", metavar="NAME", help="The entry point of an MLflow project, 'main' if not given."
    ),
    pairs_option(
        "--parameter", "-P", "parameters", help="A parameter of the project's entry point; may be repeated."
    ),
    pairs_option(
        "--set",
        "changes",
        metavar="PATH=VALUE",
        help="Set a field of the run file, as resources.cpus=4; VALUE is YAML. May be repeated.",
    ),
)
"""--dialect, --entry-point, --parameter and --set, which `how_of` reads."""


def how_of(options: dict[str, Any]) -> How:
    """The reading options, removed from `options`."""
    parameters: Sequence[tuple[str, str]] = options.pop("parameters")
    return How(
        dialect=options.pop("dialect"),
        entry_point=options.pop("entry_point"),
        parameters=dict(parameters),
        changes=dict(options.pop("changes")),
    )


def companions(directory: Path) -> dict[str, str]:
    """The files beside a run file that its dialect may request; files that are not text are left out."""
    found: dict[str, str] = {}
    try:
        for path in sorted(directory.iterdir()):
            named = path.name.lower() in COMPANIONS and path.is_file()
            if named and path.stat().st_size <= _LARGEST_BYTES:
                found[path.name] = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return found
    return found
