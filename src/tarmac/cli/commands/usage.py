"""`tarmac usage` and `tarmac projects`: the slot-hours of users, projects and pools, and all projects.

A project exists as soon as a run names it.
"""

import csv
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import click

from tarmac.cli.dialogue import answer, connect, print_list, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag, local_time, repeated
from tarmac.cli.views.amounts import age, parse_duration
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.people.usage import Period, UsedSlots
from tarmac.model.summary import Project

HOUR_S = 3600.0


PROJECTS: Table[Project] = (
    Column("PROJECT", lambda project, _: Cell(project.id, "bold")),
    Column("RUNS", lambda project, _: project.runs, right=True),
    Column("NOT ENDED", lambda project, _: project.live or "", right=True),
    Column("NEWEST", lambda project, now: age(project.newest_at, now), right=True),
)


BY = ("user", "project", "pool", *(period.value for period in Period))


def _usage_table(by: Sequence[str]) -> Table[dict[str, Any]]:
    return (
        *(_named(each) for each in by),
        Column("SLOT-HOURS", lambda total, _: f"{total['slot_hours']:.2f}", right=True),
        Column("RUNS", lambda total, _: total["runs"], right=True),
        Column("ATTEMPTS", lambda total, _: total["attempts"], right=True),
    )


def _named(by: str) -> Column[dict[str, Any]]:
    return Column(by.upper(), lambda total, _: Cell(total[by], "bold"))


def moment(text: str, zone: tzinfo | None = None) -> float:
    """A date, a date with a time of the zone (None: local), or a duration before now, as a Unix time."""
    back_s = parse_duration(text)
    return local_time(text, "7d, ", zone) if back_s is None else time.time() - back_s


def utc_moment(text: str) -> float:
    """The same in UTC."""
    return moment(text, UTC)


@command()
@repeated("--by", metavar="|".join(BY), type=click.Choice(BY), default=BY[:1], help="A line for each.")
@click.option("--since", type=utc_moment, metavar="TIME", help="From then on (UTC): 7d (ago), or 2026-11-01.")
@click.option("--until", type=utc_moment, metavar="TIME", help="Until then (UTC); by default until now.")
@flag("--csv", "as_csv", help="Print CSV instead of a table.")
def usage(*, by: tuple[str, ...], since: float | None, until: float | None, as_csv: bool) -> None:
    """Show the slot-hours of users, projects or pools, in total or by day or month (UTC).

    --by may be repeated: `--by user --by day` is each user on each day. By default it is user.
    """
    by = tuple(dict.fromkeys(by))
    per = next((each for each in Period if each in by), None)
    totals = _totals(connect().usage(since=since, until=until, per=per), by)
    if as_csv and not wants_json():
        writer = csv.DictWriter(sys.stdout, (*by, "slot_hours", "runs", "attempts"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(totals)
        return
    document = {"by": ",".join(by), "since": since, "until": until, "usage": totals}
    text = table_text(_usage_table(by), totals, stdout_terminal())
    answer(document, text, empty="nothing was used in this time")


def _totals(parts: list[UsedSlots], by: Sequence[str]) -> list[dict[str, Any]]:
    """The sums for each user, project, pool, day or month: in order of time, then the largest first."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in parts:
        day = f"{datetime.fromtimestamp(part.begin_at or 0.0, UTC):%Y-%m-%d}"
        pool = f"{part.cluster}/{part.pool}"
        names = dict(zip(BY, (part.user, part.project, pool, day, day[:7]), strict=True))
        chosen = {each: names[each] for each in by}
        sums = {"slot_hours": 0.0, "runs": 0, "attempts": 0}
        one = found.setdefault(tuple(chosen.values()), chosen | sums)
        one["slot_hours"] += part.slot_s / HOUR_S
        one["runs"] += part.runs
        one["attempts"] += part.attempts
    times = [each for each in Period if each in by]
    return sorted(
        found.values(), key=lambda one: (*map(one.get, times), -one["slot_hours"], *map(one.get, by))
    )


@command()
def projects() -> None:
    """List projects: the name of each is its id."""
    empty = "no run yet, and so no project"
    print_list("projects", connect().projects(), PROJECTS, empty=empty)
