"""`tarmac burst`: machines that are rented for runs, their cost, and the approval of runs that need some."""

import time
from collections.abc import Sequence
from typing import Any

import click

from tarmac import api
from tarmac.cli import selecting
from tarmac.cli.dialogue import answer, connect, print_text, remark
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import duration, run_argument, runs_argument
from tarmac.cli.views.amounts import age, until
from tarmac.cli.views.messages import title
from tarmac.cli.views.offerview import OFFERS, money
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.burst.rentals import RentalState
from tarmac.model.errors import TarmacError
from tarmac.model.summary import RunSummary

_STYLES = {RentalState.READY: "green", RentalState.ENDED: "dim"}

TRIES: Table[api.Rental] = (
    Column("TRY", lambda rental, _: rental.number, right=True),
    Column("STATE", lambda rental, _: Cell(rental.state, _STYLES.get(rental.state, "cyan"))),
    Column("SHAPE", lambda rental, _: rental.shape and rental.shape.id),
    Column("MACHINES", lambda rental, _: rental.machines or "", right=True),
    Column("SINCE", lambda rental, now: age(rental.created_at or rental.requested_at, now), right=True),
    Column("COST", lambda rental, _: money(rental.spent, rental.shape), right=True),
    Column("UNTIL", lambda rental, now: until(rental.end_at, now) if rental.open and rental.end_at else ""),
    Column("ENDED", lambda rental, _: ": ".join(filter(None, (rental.end, rental.text))), flexible=True),
)
RENTALS: Table[api.Rental] = (
    Column("RUN", lambda rental, _: rental.run_name),
    Column("ID", lambda rental, _: rental.run_id),
    *TRIES,
)
STAGED: Table[RunSummary] = (
    Column("TO APPROVE", lambda run, _: title(run)),
    Column("ID", lambda run, _: run.id),
    Column("USER", lambda run, _: run.user),
    Column("AGE", lambda run, now: age(run.created_at, now), right=True),
)


@click.group(cls=Subcommands)
def burst() -> None:
    """Show the machines that are rented for runs, and approve that some are."""


@burst.command()
@click.option(
    "--since", "ago_s", type=duration, default="1d", show_default=True, metavar="TIME", help="How far back."
)
def ls(*, ago_s: float) -> None:
    """List runs that wait for an approval, and rentals, with what each has cost until now."""
    client = connect()
    staged, rentals = client.staged_runs(), client.rentals(since=time.time() - ago_s)
    text = _tables((STAGED, staged), (RENTALS, rentals))
    answer({"staged": staged, "rentals": rentals}, text, empty="nothing is rented, and no run waits for it")


@burst.command()
@run_argument
def show(*, run: str) -> None:
    """Show each try to rent machines for a run, and the shapes that would be tried next."""
    client = connect()
    rentals, offers = client.rentals(run), client.offers(run)
    shown = [] if any(rental.open for rental in rentals) else offers
    text = _tables((TRIES, rentals), (OFFERS, shown))
    answer({"rentals": rentals, "offers": offers}, text, empty="no shape is known")


@burst.command()
@runs_argument
@selecting.yes_option
def approve(*, runs: tuple[str, ...], yes: bool) -> None:
    """Approve that machines are rented for burst runs.

    The cost of each is printed first, and you are asked.
    """
    client = connect()
    refusals: list[TarmacError] = []
    found = [
        client.run(run_id)
        for reference, run in selecting.named_runs(client, runs, refusals)
        for run_id in selecting.member_ids(client, run, reference)
    ]
    if found and not yes:
        for run in found:
            remark(f"{title(run)} ({run.id}): the first of these shapes that has machines is rented")
            print_text(_tables((OFFERS, client.offers(run.id))) or "no shape is known", err=True)
        selecting.confirm("approve", found)
    selecting.each_in_turn(found, client.approve, done="is approved", key="rentals", refusals=refusals)


def _tables(*tables: tuple[Table[Any], Sequence[Any]]) -> str:
    """The tables that have rows, with an empty line between them."""
    return "\n\n".join(table_text(table, rows, stdout_terminal()) for table, rows in tables if rows)
