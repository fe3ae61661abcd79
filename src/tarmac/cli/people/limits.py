"""`tarmac limits` and `tarmac credits`: limits of users, projects and pools, and the ledger of credits."""

from datetime import UTC, datetime
from typing import Any

import click

from tarmac.cli.dialogue import answer, connect, print_list
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import COUNT, duration, flag, together
from tarmac.cli.views.amounts import duration as length
from tarmac.cli.views.table import Cell, Column, Table
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit

AMOUNT = click.FloatRange(min=0)
_OPTIONS: dict[str, tuple[Any, str]] = {
    "slots": (COUNT, "Slots at once."),
    "queued": (COUNT, "Waiting runs."),
    "slot_hours": (AMOUNT, "Slot-hours in a calendar month (UTC)."),
    "largest": (COUNT, "Slots of one run."),
    "longest_s": (duration, "The time limit of a run: 2d."),
    "rent_per_hour": (AMOUNT, "Money per hour for the machines of one run."),
    "rent_budget": (AMOUNT, "Money for rented machines in a calendar month (UTC)."),
}


def _word(field: str) -> str:
    return field.removesuffix("_s").replace("_", "-")


def _words(limit: Limit) -> str:
    """Its limits in words: `slots 8, longest 2d 0h`."""
    pairs = ((_word(name), length(n) if name == "longest_s" else f"{n:g}") for name, n in limit.given.items())
    return ", ".join(f"{word} {value}" for word, value in pairs) or "no limits"


LIMITS: Table[Limit] = (
    Column("FOR", lambda limit, _: Cell(str(limit), "bold")),
    Column("LIMITS", lambda limit, _: _words(limit), flexible=True),
)


CREDITS: Table[CreditAccount] = (
    Column("ACCOUNT", lambda account, _: Cell(account.account, "bold")),
    Column("BALANCE", lambda account, _: f"{account.balance:.2f}", right=True),
    Column("USED", lambda account, _: f"{account.used:.2f}", right=True),
    Column("OF", lambda account, _: f"{account.granted:.2f}", right=True),
    Column("STATE", lambda each, _: "used up" if each.balance <= 0 else "low" if each.warned else "ok"),
)
ENTRIES: Table[CreditEntry] = (
    Column("ID", lambda entry, _: entry.id, right=True),
    Column("AT (UTC)", lambda entry, _: f"{datetime.fromtimestamp(entry.at, UTC):%Y-%m-%d %H:%M:%S}"),
    Column("ACCOUNT", lambda entry, _: entry.account),
    Column("KIND", lambda entry, _: entry.kind),
    Column("AMOUNT", lambda entry, _: f"{entry.amount:+.4f}", right=True),
    Column("SLOT-SECONDS", lambda entry, _: f"{entry.slot_s:.1f}" if entry.slot_s else "", right=True),
    Column("ATTEMPT", lambda entry, _: entry.attempt),
    Column("BY", lambda entry, _: entry.actor, optional=True),
    Column("NOTE", lambda entry, _: entry.note, flexible=True),
)

account_options = together(
    click.option("--user", metavar="NAME", help="Of this user."),
    click.option("--project", metavar="NAME", help="Of this project."),
)
pool_option = click.option("--pool", metavar="NAME", help="In this pool: POOL or CLUSTER/POOL.")
scope_options = together(account_options, pool_option)
limit_options = together(
    *(
        click.option(f"--{_word(name)}", name, type=kind, metavar="N", help=text)
        for name, (kind, text) in _OPTIONS.items()
    )
)


@click.group(cls=Subcommands)
def limits() -> None:
    """List and change the limits of users, projects and pools."""


@limits.command()
def ls() -> None:
    """List the limits."""
    print_list("limits", connect().limits(), LIMITS, empty="there are no limits; tarmac limits set sets one")


@limits.command()
@scope_options
@limit_options
def set(**given: Any) -> None:
    """Set limits of a user, a project, a pool, or of several of these together; others stay as they are.

    '*' stands for each user, project or pool that has no limit of its own.

    \b
    tarmac limits set --user ada --slots 16 --queued 100 --slot-hours 500 --largest 8 --longest 2d
    tarmac limits set --user '*' --pool big --slots 8
    """
    if all(given[name] is None for name in _OPTIONS):
        raise click.UsageError(f"no limit is given; limits are --{', --'.join(map(_word, _OPTIONS))}")
    limit = connect().set_limits(**given)
    answer(limit, f"{limit}: {_words(limit)}")


@limits.command()
@scope_options
@click.argument("names", metavar="[LIMIT]...", nargs=-1, type=click.Choice([*map(_word, _OPTIONS)]))
def unset(names: tuple[str, ...], **scope: str | None) -> None:
    """Remove the named limits, or all of the user, project or pool."""
    fields = [name for name in _OPTIONS if not names or _word(name) in names]
    limit = connect().set_limits(unset=fields, **scope)
    answer(limit, f"{limit}: {_words(limit)}")


@click.group(cls=Subcommands)
def credits() -> None:
    """Show credits, grant them, and print their ledger."""


def _account(user: str | None, project: str | None) -> str | None:
    return f"user:{user}" if user is not None else f"project:{project}" if project is not None else None


@credits.command("ls")
def accounts() -> None:
    """List the accounts; users and projects without one use no credits."""
    empty = "no credits are granted, and so none are needed; tarmac credits grant grants some"
    print_list("credits", connect().credits(), CREDITS, empty=empty)


@credits.command(context_settings={"ignore_unknown_options": True})
@click.argument("amount", type=float)
@account_options
@click.option("--note", default="", metavar="TEXT", help="Why, for the ledger.")
@flag("--correction", help="Correct an account: AMOUNT may be negative, and is no new grant.")
def grant(amount: float, user: str | None, project: str | None, **options: Any) -> None:
    """Grant credits to a user or a project. From the first grant on, its runs use credits."""
    name = _account(user, project)
    if name is None:
        raise click.UsageError("credits are granted to one user or project: give --user or --project")
    account = connect().grant_credits(name, amount, **options)
    answer(account, f"{account.account} has {account.balance:.2f} credits")


@credits.command()
@account_options
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="Only N."
)
@click.option("--before", type=click.IntRange(min=1), metavar="ID", help="Only entries before this one.")
def ledger(user: str | None, project: str | None, **page: Any) -> None:
    """Print the ledger, the newest entries first."""
    found = connect().credit_entries(account=_account(user, project), **page)
    print_list("entries", found, ENTRIES, empty="the ledger has no such entries")
