"""The displays by name, each imported when it is used, and the option `--as`.

Used by `ls`, `show` and `logs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tarmac import api
from tarmac.model.errors import suggestion
from tarmac.model.summary import RunSummary

if TYPE_CHECKING:
    from tarmac.systems.display import Display

DISPLAYS: Mapping[str, str] = {
    "clusterfudge": "tarmac.systems.clusterfudge.display",
    "determined": "tarmac.systems.determined.display",
    "isc": "tarmac.systems.isc.display",
    "mantik": "tarmac.systems.mantik.display",
    "mcli": "tarmac.systems.mcli.display",
}
"""The module of each display, which defines `DISPLAY`."""

_PORT, _REPORTS = "tarmac.systems.display", "tarmac.systems.listing"
"""Imported late, because they import the dialects."""


def system_name(text: str) -> str:
    """The name of a system that has a display."""
    name = text.lower()
    if name not in DISPLAYS:
        hint = suggestion(name, DISPLAYS, f"known: {', '.join(sorted(DISPLAYS))}")
        raise click.BadParameter(f"no display is called {text!r}; {hint}")
    return name


as_option = click.option(
    "--as",
    "system",
    type=system_name,
    metavar="SYSTEM",
    help="In the words and columns of isc, mcli, determined, clusterfudge or mantik.",
)
"""The option `--as`: output in the words of another system."""


def display(system: str) -> Display:
    """The display of a system in `DISPLAYS`."""
    found: Display = import_module(DISPLAYS[system]).DISPLAY
    return found


def statuses_of(system: str) -> list[str]:
    """Every status of the system."""
    shown, port = display(system), import_module(_PORT)
    return sorted({shown.status(report) for report in port.every_report()})


def with_statuses(runs: Sequence[api.Run | RunSummary], system: str) -> list[dict[str, Any]]:
    """The runs with an additional `status`: the system's own word for it."""
    from msgspec.structs import asdict  # noqa: PLC0415 - for `--as` alone

    shown, report_of = display(system), import_module(_REPORTS).report_of
    return [{**asdict(run), "status": shown.status(report_of(run))} for run in runs]
