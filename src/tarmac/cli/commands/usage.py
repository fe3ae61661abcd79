"""`tarmac usage` and `tarmac projects`: the slot-hours of users, projects and pools, and all projects.

A project exists as soon as a run names it.
"""

import csv
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, wants_json
from tarmac.cli.options import flag, json_option, local_time
from tarmac.cli.selecting import pages
from tarmac.cli.views.amounts import age, parse_duration
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client

HOUR_S = 3600.0


@dataclass(slots=True, kw_only=True)
class Project:
    """The totals of a project's runs."""

    id: str
    runs: int = 0
    live: int = 0
    newest_at: float


PROJECTS: Table[Project] = (
    Column("PROJECT", lambda project, _: Cell(project.id, "bold")),
    Column("RUNS", lambda project, _: project.runs, right=True),
    Column("NOT ENDED", lambda project, _: project.live or "", right=True),
    Column("NEWEST", lambda project, now: age(project.newest_at, now), right=True),
)


def _usage_table(by: str) -> Table[dict[str, Any]]:
    return (
        Column(by.upper(), lambda total, _: Cell(total[by], "bold")),
        Column("SLOT-HOURS", lambda total, _: f"{total['slot_hours']:.2f}", right=True),
        Column("RUNS", lambda total, _: total["runs"], right=True),
        Column("ATTEMPTS", lambda total, _: total["attempts"], right=True),
    )


def moment(text: str) -> float:
    """A date, a date with a local time, or a duration before now, as a Unix time."""
    back_s = parse_duration(text)
    return local_time(text, "7d, ") if back_s is None else time.time() - back_s


@click.command()
@click.option(
    "--by",
    type=click.Choice(["user", "project", "pool"]),
    default="user",
    show_default=True,
    help="A line for each of these.",
)
@click.option("--since", type=moment, metavar="TIME", help="From then on: 7d (ago), or 2026-11-01T08:00.")
@click.option("--until", type=moment, metavar="TIME", help="Until then; by default until now.")
@flag("--csv", "as_csv", help="Print CSV instead of a table.")
@json_option
def usage(*, by: str, since: float | None, until: float | None, as_csv: bool) -> None:
    """Show the slot-hours that users, projects or pools used."""
    totals = _totals(connect().usage(since=since, until=until), by)
    if as_csv and not wants_json():
        writer = csv.DictWriter(sys.stdout, (by, "slot_hours", "runs", "attempts"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(totals)
        return
    document = {"by": by, "since": since, "until": until, "usage": totals}
    text = table_text(_usage_table(by), totals, stdout_terminal())
    answer(document, text, empty="nothing was used in this time")


def _totals(parts: list[api.UsedSlots], by: str) -> list[dict[str, Any]]:
    """The sums for each user, project or pool, the largest first.

    A run that used two pools counts in both.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        name = {"user": part.user, "project": part.project, "pool": f"{part.cluster}/{part.pool}"}[by]
        one = found.setdefault(name, {by: name, "slot_hours": 0.0, "runs": 0, "attempts": 0})
        one["slot_hours"] += part.slot_s / HOUR_S
        one["runs"] += part.runs
        one["attempts"] += part.attempts
    return sorted(found.values(), key=lambda one: (-one["slot_hours"], one[by]))


@click.command()
@json_option
def projects() -> None:
    """List projects: the name of each is its id."""
    empty = "no run yet, and so no project"
    print_list("projects", _projects(connect()), PROJECTS, empty=empty)


def _projects(client: Client) -> list[Project]:
    """The projects of all runs, beginning with that of the newest run."""
    found: dict[str, Project] = {}
    for run in pages(client, None, {"everything": True}):
        newest_at = run.created_at
        project = found.setdefault(run.project, Project(id=run.project, newest_at=newest_at))
        project.runs += 1
        project.live += run.state != "ended"
    return list(found.values())
