"""`tarmac notifications`: the receivers of messages about all of one's own runs."""

from typing import Any

import click

from tarmac import api
from tarmac.cli.dialogue import connect, print_list
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import duration, repeated
from tarmac.cli.views.amounts import duration as length
from tarmac.cli.views.table import Cell, Column, Table
from tarmac.model.notification import ENDED, Channel, Occasion

EVENTS = ("ended", *(occasion.value for occasion in Occasion))
FORMS = click.Choice([channel.value for channel in Channel])


def _events(each: api.PersonalSubscription) -> str:
    return ", ".join(each.on).replace(Occasion.WAITING, f"waiting {length(each.waiting_s)}")


SUBSCRIPTIONS: Table[api.PersonalSubscription] = (
    Column("NOTIFIES", lambda each, _: Cell(each.receiver, "bold")),
    Column("OF", lambda each, _: _events(each), flexible=True),
)


def _print(found: list[api.PersonalSubscription]) -> None:
    empty = "all your runs have no receiver; tarmac notifications set ADDRESS sets one"
    print_list("subscriptions", found, SUBSCRIPTIONS, empty=empty)


@click.group(cls=Subcommands)
def notifications() -> None:
    """Set who is notified of events of all your runs."""


@notifications.command()
@click.option("--user", metavar="NAME", help="Those of another user, for admins.")
def ls(*, user: str | None) -> None:
    """List the receivers; of a URL only its host is shown."""
    _print(connect().subscriptions(user=user))


@notifications.command()
@click.argument("to", metavar="ADDRESS")
@click.option("--as", "channel", type=FORMS, help="The form of messages; by default that of the address.")
@repeated("--on", type=click.Choice(EVENTS), metavar="EVENT", help=f"One of {', '.join(EVENTS)}.")
@click.option("--after", "waiting_s", type=duration, metavar="TIME", help="After a wait of this length.")
def set(*, to: str, on: tuple[str, ...], waiting_s: float | None, **form: Any) -> None:
    """Notify ADDRESS of events of all your runs: an address of mail, a URL, or a secret that has a URL.

    Without --on and --after, of their end.

    \b
    tarmac notifications set ada@lab.example --on failed --after 2h
    tarmac notifications set '${{ secrets.SLACK_HOOK }}' --as slack --on ended --on idle
    """
    chosen = on or (() if waiting_s is not None else EVENTS[:1])
    events = [word for each in chosen for word in (ENDED if each == EVENTS[0] else (each,))]
    _print(connect().subscribe(to, on=events, waiting_s=waiting_s, **form))


@notifications.command()
@click.argument("to", metavar="[ADDRESS]", required=False)
def unset(*, to: str | None) -> None:
    """Remove the receivers of this ADDRESS, as typed for set or as ls shows it, or all."""
    _print(connect().subscribe(to, on=()))
