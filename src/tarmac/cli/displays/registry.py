"""The displays by name, each imported when it is used, and the option `--as`.

Used by `ls`, `show` and `logs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tarmac.cli.views.messages import Json
from tarmac.model.text import suggestion

if TYPE_CHECKING:
    from tarmac.cli.displays.display import Display

F = TypeVar("F", bound=Callable[..., Any])

DISPLAYS: Mapping[str, str] = {
    "clusterfudge": "tarmac.systems.clusterfudge.display",
    "determined": "tarmac.systems.determined.display",
    "isc": "tarmac.systems.isc.display",
    "mantik": "tarmac.systems.mantik.display",
    "mcli": "tarmac.systems.mcli.display",
}
"""The module of each display, which defines `DISPLAY`."""

_PORT = "tarmac.cli.displays.display"
"""Imported late, because it imports the dialects."""


class SystemName(click.ParamType):  # type: ignore[type-arg]
    """The name of a system that has a display."""

    name = "system"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value).lower()
        if name not in DISPLAYS:
            hint = suggestion(name, DISPLAYS, f"known: {', '.join(sorted(DISPLAYS))}")
            self.fail(f"no display is called {value!r}; {hint}", param, ctx)
        return name


def as_option(function: F) -> F:
    """The option `--as`: output in the words of another system."""
    return click.option(
        "--as",
        "system",
        type=SystemName(),
        metavar="SYSTEM",
        help="In the words and columns of isc, mcli, determined, clusterfudge or mantik.",
    )(function)


def display(system: str) -> Display:
    """The display of a system in `DISPLAYS`."""
    found: Display = import_module(DISPLAYS[system]).DISPLAY
    return found


def statuses_of(system: str) -> list[str]:
    """Every status of the system."""
    shown, port = display(system), import_module(_PORT)
    return sorted({shown.status(report) for report in port.every_report()})


def with_statuses(runs: Sequence[Json], system: str) -> list[dict[str, Any]]:
    """The runs with an additional `status`: the system's own word for it."""
    shown, report_of = display(system), import_module(_PORT).report_of
    return [{**run, "status": shown.status(report_of(run))} for run in runs]
