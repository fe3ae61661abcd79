"""`tarmac providers`: accounts in which machines are rented, and what is there beside those machines."""

import sys

import click

from tarmac.cli.commands.clusters import FINDINGS
from tarmac.cli.dialogue import answer, connect, print_list
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import pairs_option
from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.burst.provider import ProviderRecord, RentedThing

PROVIDERS: Table[ProviderRecord] = (
    Column("PROVIDER", lambda provider, _: Cell(provider.name, "bold")),
    Column("KIND", lambda provider, _: provider.kind),
    Column("OWNER", lambda provider, _: provider.owner),
    Column("SECRETS", lambda provider, _: ", ".join(provider.credentials.values())),
    Column("SETTINGS", lambda each, _: ", ".join(map("=".join, each.settings.items())), flexible=True),
)
STRANGERS: Table[RentedThing] = (
    Column("STRANGER", lambda thing, _: thing.id),
    Column("KIND", lambda thing, _: thing.kind),
    Column("STATE", lambda thing, _: thing.state),
    Column("OWNER", lambda thing, _: thing.owner or "not tagged"),
    Column("SINCE", lambda thing, now: age(thing.since, now), right=True),
    Column("ADDRESS", lambda thing, _: thing.address),
)
_name_argument = click.argument("name", metavar="NAME")


@click.group(cls=Subcommands)
def providers() -> None:
    """List, add and remove providers, which rent out machines for burst runs. For admins."""


@providers.command()
def ls() -> None:
    """List providers. OWNER is the tag of everything that this server rents there."""
    print_list("providers", connect().providers(), PROVIDERS, empty="there is no provider")


@providers.command()
@_name_argument
@click.option("--kind", metavar="KIND", required=True, help="ec2, or machines: commands of your own.")
@pairs_option("--set", "settings", metavar="SETTING=VALUE", help="A setting; may be repeated.")
@pairs_option(
    "--credential", "credentials", metavar="USE=SECRET", help="The secret for a use; may be repeated."
)
def add(*, name: str, kind: str, **pairs: tuple[tuple[str, str], ...]) -> None:
    """Add a provider, once it has answered; the settings of each kind are in docs/operating/burst.md.

    \b
    tarmac providers add lab --kind machines --set create=/etc/tarmac/create --set list=/etc/tarmac/list \\
        --set delete=/etc/tarmac/delete
    """
    added = connect().add_provider(name, kind, **{part: dict(values) for part, values in pairs.items()})
    text = f"there is provider {added.name} ({added.kind}); what it rents has the owner {added.owner}"
    answer(added, text)


@providers.command()
@_name_argument
def rm(*, name: str) -> None:
    """Remove a provider and its shapes; refused while machines of it exist."""
    removed = connect().remove_provider(name)
    answer(removed, f"provider {removed.name} is gone")


@providers.command()
@_name_argument
def check(*, name: str) -> None:
    """Try what renting at a provider needs, and list what is there and was not rented by this server.

    The server never touches that: accounts may be shared. The exit code is 1 if something is missing.
    """
    client, terminal = connect(), stdout_terminal()
    found = client.check_provider(name)
    strangers = [thing for thing in client.strangers() if thing.id.startswith(f"{name}/")]
    text = table_text(FINDINGS, found, terminal)
    if strangers:
        text += f"\n\n{table_text(STRANGERS, strangers, terminal)}"
    answer({"provider": name, "findings": found, "strangers": strangers}, text)
    if not all(finding.ok for finding in found):
        sys.exit(1)
