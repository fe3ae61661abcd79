"""`tarmac burst`: machines that are rented for runs, their cost, and the approval of runs that need some."""

import sys
import time
from collections.abc import Sequence

import click

from tarmac import api
from tarmac.cli import selecting
from tarmac.cli.burst.shapes import money, slots_text
from tarmac.cli.dialogue import (
    answer,
    connect,
    print_json,
    print_refusals,
    print_text,
    remark,
    tell,
    wants_json,
)
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import duration, json_option, run_argument, runs_argument
from tarmac.cli.views import amounts
from tarmac.cli.views.amounts import age
from tarmac.cli.views.messages import title
from tarmac.cli.views.table import Cell, Column, Table, facts_text, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.burst.provider import RentedThing
from tarmac.model.burst.rentals import RentalState
from tarmac.model.burst.shapes import Offer
from tarmac.model.errors import TarmacError
from tarmac.model.summary import RunSummary

_STYLES = {RentalState.READY: "green", RentalState.ENDED: "dim"}
DAY_S = 86_400.0


def _end(rental: api.Rental) -> str:
    """Why it ended, with the provider's words."""
    return ": ".join(part for part in (rental.end or "", rental.text) if part)


RENTALS: Table[api.Rental] = (
    Column("RUN", lambda rental, _: rental.run_name),
    Column("ID", lambda rental, _: rental.run_id),
    Column("TRY", lambda rental, _: rental.number, right=True),
    Column("STATE", lambda rental, _: Cell(rental.state, _STYLES.get(rental.state, "cyan"))),
    Column("SHAPE", lambda rental, _: rental.shape.id if rental.shape else ""),
    Column("MACHINES", lambda rental, _: rental.machines or "", right=True),
    Column("SINCE", lambda rental, now: age(rental.created_at or rental.wanted_at, now), right=True),
    Column("COST", lambda rental, _: money(rental.cost, rental.shape), right=True),
    Column("ENDED", lambda rental, _: _end(rental), flexible=True),
)
STAGED: Table[RunSummary] = (
    Column("TO APPROVE", lambda run, _: title(run)),
    Column("ID", lambda run, _: run.id),
    Column("USER", lambda run, _: run.user),
    Column("PROJECT", lambda run, _: run.project),
    Column("AGE", lambda run, now: age(run.created_at, now), right=True),
)
OFFERS: Table[Offer] = (
    Column("SHAPE", lambda offer, _: offer.shape.id),
    Column("REGION", lambda offer, _: offer.shape.region),
    Column("EACH", lambda offer, _: slots_text(offer.shape)),
    Column("MACHINES", lambda offer, _: offer.machines, right=True),
    Column("PER HOUR", lambda offer, _: money(offer.rate, offer.shape), right=True),
    Column("AT MOST", lambda offer, _: "no limit" if offer.cost is None else money(offer.cost, offer.shape)),
    Column("REFUSED", lambda offer, _: offer.refused, flexible=True),
)
THINGS: Table[RentedThing] = (
    Column("ID", lambda thing, _: thing.id),
    Column("KIND", lambda thing, _: thing.kind),
    Column("STATE", lambda thing, _: thing.state),
    Column("ADDRESS", lambda thing, _: thing.address),
)


@click.group(cls=Subcommands)
def burst() -> None:
    """Show the machines that are rented for runs, and approve that some are."""


@burst.command()
@click.option(
    "--since",
    "ago_s",
    type=duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Also those that ended since then.",
)
@json_option
def ls(*, ago_s: float) -> None:
    """List runs that wait for an approval, and rentals, with what each has cost until now."""
    client = connect()
    staged, rentals = client.staged_runs(), client.rentals(since=time.time() - ago_s)
    tables = [
        table_text(STAGED, staged, stdout_terminal()) if staged else "",
        table_text(RENTALS, rentals, stdout_terminal()) if rentals else "",
    ]
    text = "\n\n".join(table for table in tables if table)
    answer({"staged": staged, "rentals": rentals}, text, empty="nothing is rented, and no run waits for it")


@burst.command()
@run_argument
@json_option
def show(*, run: str) -> None:
    """Show each try to rent machines for a run, its machines, and the shapes that would be tried now."""
    client = connect()
    found = client.run(run)
    rentals, offers = client.rentals(found.id), client.offers(found.id)
    terminal, now = stdout_terminal(), time.time()
    parts = [
        part
        for rental in rentals
        for part in (_page(rental, now), table_text(THINGS, rental.things, terminal) if rental.things else "")
    ]
    if not any(rental.open for rental in rentals):
        parts.append(_offers_text(offers))
    text = "\n\n".join(part for part in parts if part)
    answer({"rentals": rentals, "offers": offers}, text, empty="no shape is known")


@burst.command()
@runs_argument
@selecting.yes_option
@json_option
def approve(*, runs: tuple[str, ...], yes: bool) -> None:
    """Approve that machines are rented for burst runs.

    What each may cost is printed first, and you are asked.
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
            print_text(_offers_text(client.offers(run.id)) or "no shape is known", err=True)
        selecting.confirm("approve", found)
    rentals = _approved(client, found, refusals)
    if wants_json():
        print_json({"rentals": rentals})
    sys.exit(print_refusals(refusals))


def _approved(client: Client, found: Sequence[api.Run], refusals: list[TarmacError]) -> list[api.Rental]:
    """The new rentals of these runs; refusals are appended."""
    rentals = []
    for run in found:
        try:
            rentals.append(client.approve(run.id))
        except TarmacError as error:
            refusals.append(error)
        else:
            tell(f"{title(run)} ({run.id}) is approved")
    return rentals


def _page(rental: api.Rental, now: float) -> str:
    """One try to rent machines."""
    shape = rental.shape
    facts = {
        "try": f"{rental.number}, {rental.state}",
        "shape": f"{shape.id}, {money(rental.rate, shape)} per hour" if shape else "",
        "machines": rental.machines or "",
        "approved": f"by {rental.approved}" if rental.approved else "",
        "rented": age(rental.created_at, now),
        "ready": age(rental.ready_at, now),
        "until": amounts.until(rental.end_at, now) if rental.open and rental.end_at else "",
        "ended": " ".join(part for part in (age(rental.ended_at, now), _end(rental)) if part),
        "cost": money(rental.cost, shape),
    }
    return facts_text(facts, stdout_terminal())


def _offers_text(offers: Sequence[Offer]) -> str:
    return table_text(OFFERS, offers, stdout_terminal()) if offers else ""
