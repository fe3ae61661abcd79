"""`tarmac projects`: list the projects of runs. A project exists as soon as a run names it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import Cell, heads, render
from tarmac.cli.views.terminal import stdout_terminal

if TYPE_CHECKING:
    from tarmac.client import Client

PAGE = 1000

_COLUMNS = heads("PROJECT, RUNS, NOT ENDED, NEWEST", right="RUNS, NOT ENDED, NEWEST")


@dataclass(slots=True)
class Project:
    """The totals of a project's runs."""

    newest_at: float
    runs: int = 0
    live: int = 0


@click.command()
@json_option
def projects(*, as_json: bool) -> None:
    """List projects: the name of each is its id."""
    found = _projects(connect())
    if as_json:
        rows = [
            {"id": name, "runs": one.runs, "live": one.live, "newest_at": one.newest_at}
            for name, one in found.items()
        ]
        print_json({"projects": rows})
        return
    if not found:
        remark("no run yet, and so no project")
        return
    now = time.time()
    table = (
        (Cell(name, "bold"), str(one.runs), str(one.live) if one.live else "", age(one.newest_at, now))
        for name, one in found.items()
    )
    print_text(render(_COLUMNS, table, stdout_terminal()))


def _projects(client: Client) -> dict[str, Project]:
    """The projects of all runs, beginning with that of the newest run."""
    found: dict[str, Project] = {}
    before: str | None = None
    while True:
        page = client.runs(everything=True, limit=PAGE, before=before)
        for run in page["runs"]:
            project = found.setdefault(run["project"], Project(newest_at=run["created_at"]))
            project.runs += 1
            project.live += run["state"] != "ended"
        before = page["next"]
        if before is None:
            return found
