"""`tarmac usage`: print the slot-hours of users, projects and pools in a range of time."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import parse_duration
from tarmac.cli.views.table import Cell, heads, render
from tarmac.cli.views.terminal import stdout_terminal

if TYPE_CHECKING:
    from tarmac import api

HOUR_S = 3600.0


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A date, a date with a local time, or a duration before now, as a Unix time."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        back_s = parse_duration(str(value))
        if back_s is not None:
            return time.time() - back_s
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no time; write 7d, 2026-11-01 or 2026-11-01T08:00", param, ctx)


@click.command()
@click.option(
    "--by",
    type=click.Choice(["user", "project", "pool"]),
    default="user",
    show_default=True,
    help="A line for each of these.",
)
@click.option("--since", type=Moment(), metavar="TIME", help="From then on: 7d (ago), or 2026-11-01T08:00.")
@click.option("--until", type=Moment(), metavar="TIME", help="Until then; by default until now.")
@json_option
def usage(*, by: str, since: float | None, until: float | None, as_json: bool) -> None:
    """Show the slot-hours that users, projects or pools used."""
    totals = _totals(connect().usage(since=since, until=until), by)
    if as_json:
        print_json({"by": by, "since": since, "until": until, "usage": totals})
    elif not totals:
        remark("nothing was used in this time")
    else:
        columns = heads(f"{by.upper()}, SLOT-HOURS, RUNS, ATTEMPTS", right="SLOT-HOURS, RUNS, ATTEMPTS")
        lines = (
            (Cell(one[by], "bold"), f"{one['slot_hours']:.2f}", str(one["runs"]), str(one["attempts"]))
            for one in totals
        )
        print_text(render(columns, lines, stdout_terminal()))


def _totals(parts: list[api.UsedSlots], by: str) -> list[dict[str, Any]]:
    """The sums for each user, project or pool, the largest first.

    A run that used two pools counts in both.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        names = {
            "user": part.user,
            "project": part.project,
            "pool": f"{part.cluster}/{part.pool}",
        }
        one = found.setdefault(names[by], {by: names[by], "slot_hours": 0.0, "runs": 0, "attempts": 0})
        one["slot_hours"] += part.slot_s / HOUR_S
        one["runs"] += part.runs
        one["attempts"] += part.attempts
    return sorted(found.values(), key=lambda one: (-one["slot_hours"], one[by]))
