"""`tarmac logs`: print the output of the workers of a run; with -f follow it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from tarmac.cli.displays.registry import as_option, display
from tarmac.cli.following import LogChoice, expected_workers, follow
from tarmac.cli.options import Duration, json_option, run_argument
from tarmac.cli.output import remark
from tarmac.cli.session import connect
from tarmac.cli.views.followview import View, standard_view

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

_COUNT = click.IntRange(min=0)


@click.command()
@run_argument
@click.option(
    "--follow", "-f", "following", is_flag=True, help="Go on until the run ends; exit with its code."
)
@click.option("--role", metavar="NAME", help="Only workers of this role.")
@click.option("--replica", type=_COUNT, metavar="N", help="Only workers of this replica.")
@click.option("--worker", type=_COUNT, metavar="N", help="Only this worker of each replica.")
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt; by default all of them."
)
@click.option("--tail", type=_COUNT, metavar="N", help="Only the last N lines of each worker.")
@click.option(
    "--since", "since_s", type=Duration(), metavar="DURATION", help="Only what was written since, as 10m."
)
@click.option("--raw", is_flag=True, help="To a terminal, too, write just what the workers wrote.")
@as_option
@json_option
def logs(
    *,
    run: str,
    following: bool,
    role: str | None,
    replica: int | None,
    worker: int | None,
    attempt: int | None,
    tail: int | None,
    since_s: float | None,
    raw: bool,
    system: str | None,
    as_json: bool,
) -> None:
    """Print what the workers of a run wrote.

    Lines begin with role.replica.worker where there are several workers; a single one is printed as it is.
    """
    client = connect()
    record = client.run(run)
    choice = LogChoice(role=role, replica=replica, worker=worker, attempt=attempt, tail=tail, since_s=since_s)
    prefix = partial(display(system).log_prefix, record) if system is not None else None
    view = standard_view(as_json=as_json, quiet=True, prefix=prefix, raw=raw)
    if following:
        sys.exit(follow(client, record["id"], view, choice))
    _print(client, record, choice, view, as_json=as_json)


def _print(client: Client, run: api.Run, choice: LogChoice, view: View, *, as_json: bool) -> None:
    if run["attempt"] == 0 and not as_json:
        remark(f"it has not started; tarmac why {run['id']} says more")
    for attempt in client.attempts(run["id"]):
        if attempt["number"] == (choice.attempt or run["attempt"]):
            view.expect(expected_workers(run, attempt, choice))
    for chunk in client.logs(run["id"], **choice.arguments()):
        view.log(chunk)
    view.finish()
