"""`tarmac users`, `organisations` and `members`: the people of a server that several share."""

from __future__ import annotations

import sys
from typing import Any

import click

from tarmac.cli.dialogue import answer, connect, print_list
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import flag, together
from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import Column, Table
from tarmac.model.actor import ActorRole
from tarmac.model.codec import inherited, replace
from tarmac.model.people.account import Account, AccountSettings, Membership, Organisation, Visibility

_MAY = {
    Visibility.CONTROL: "view and change each other's runs",
    Visibility.VIEW: "view all runs, change their own",
    Visibility.OWN: "view and change their own runs",
}

ROLES = click.Choice([role.value for role in ActorRole])

USERS: Table[Account] = (
    Column("NAME", lambda user, _: user.name),
    Column("ROLE", lambda user, _: f"{user.role} (disabled)" if user.disabled else user.role),
    Column("KIND", lambda user, _: "service" if user.service else "person"),
    Column("ORGANISATION", lambda user, _: user.organisation),
    Column("RUNS AS", lambda user, _: user.system_user or "-", optional=True),
    Column("CREATED", lambda user, now: age(user.created_at, now), right=True, optional=True),
)
ORGANISATIONS: Table[Organisation] = (
    Column("NAME", lambda group, _: group.name),
    Column("MEMBERS MAY", lambda group, _: _MAY[group.visibility]),
)
MEMBERS: Table[Membership] = (
    Column("PROJECT", lambda member, _: member.project),
    Column("USER", lambda member, _: member.user),
    Column("ROLE", lambda member, _: member.role),
)


@click.group(cls=Subcommands)
def users() -> None:
    """List, add, change and remove the accounts of a shared server."""


@users.command()
def ls() -> None:
    """List the accounts."""
    empty = "there is no account; tarmac users add NAME, on the server's machine, adds the first"
    print_list("users", connect().users(), USERS, empty=empty)


_user_options = together(
    click.option("--role", type=ROLES, help="What it may do; by default, and at most at first, member."),
    click.option("--organisation", metavar="NAME", help="The organisation of the account."),
    click.option("--runs-as", "system_user", metavar="NAME", help="The system user of its runs."),
    click.option("--identity", metavar="TEXT", help="The subject that single sign-on knows it by."),
    flag("--password", help="Ask for a password, for tarmac login.", default=False),
)


@users.command()
@click.argument("name", metavar="NAME")
@_user_options
@flag("--service", help="An account of a program: its tokens may live without end.")
def add(*, name: str, **fields: Any) -> None:
    """Add an account. The first one is an admin, and is added on the server's own machine.

    \b
    tarmac users add ada --password
    tarmac users add nightly --service
    """
    client = connect()
    if any(user.name == name for user in client.users()):
        raise click.UsageError(f"there is a user {name} already; tarmac users set {name} changes it")
    settings, password = _given(name, fields, AccountSettings())
    made = client.set_user(name, settings, password=password)
    answer(made, f"{made.name} is {_with_article(made.role)}{_next_step(made)}")


@users.command(name="set")
@click.argument("name", metavar="NAME")
@_user_options
@click.option(
    "--disable/--enable", "disabled", default=None, help="Refuse all its requests, or not any more."
)
def set_(*, name: str, **fields: Any) -> None:
    """Change an account. A disabled one loses its tokens."""
    client = connect()
    present = next((user for user in client.users() if user.name == name), None)
    if present is None:
        raise click.UsageError(f"there is no user {name}; tarmac users ls lists them")
    settings, password = _given(name, fields, AccountSettings(**inherited(AccountSettings, present)))
    made = client.set_user(name, settings, password=password)
    answer(made, f"{made.name} is {_with_article(made.role)}{', disabled' if made.disabled else ''}")


@users.command()
@click.argument("name", metavar="NAME")
def rm(*, name: str) -> None:
    """Remove an account, its tokens and notifications. Its runs stay."""
    gone = connect().remove_user(name)
    answer(gone, f"{gone.name} was removed")


@click.group(cls=Subcommands)
def organisations() -> None:
    """Show and set what the members of an organisation may do with each other's runs."""


@organisations.command(name="ls")
def ls_organisations() -> None:
    """List the organisations."""
    print_list(
        "organisations", connect().organisations(), ORGANISATIONS, empty="there is no account, and so none"
    )


@organisations.command(name="set")
@click.argument("name", metavar="NAME")
@click.option(
    "--runs",
    "visibility",
    required=True,
    type=click.Choice([each.value for each in Visibility]),
    help="control: view and change those of all members; view: view all, change their own; own: their own.",
)
def set_organisation(*, name: str, visibility: str) -> None:
    """Set what its members may do with the runs of each other."""
    made = connect().set_organisation(name, Visibility(visibility))
    answer(made, f"members of {made.name} may {_MAY[made.visibility]}")


@click.group(cls=Subcommands)
def members() -> None:
    """Say who may use a project. One without members is open to all members of the server."""


@members.command(name="ls")
@click.argument("project", metavar="PROJECT")
def ls_members(*, project: str) -> None:
    """List the members of a project."""
    empty = f"{project} has no members: all members of the server may use it"
    print_list("members", connect().members(project), MEMBERS, empty=empty)


@members.command(name="set")
@click.argument("project", metavar="PROJECT")
@click.argument("user", metavar="USER")
@click.option("--role", type=ROLES, default=ActorRole.MEMBER.value, show_default=True, help="The role there.")
def set_member(*, project: str, user: str, role: str) -> None:
    """Give a user, or with * every account, a role in a project: viewer, member or admin."""
    found = connect().set_member(project, user, ActorRole(role))
    answer({"members": found}, f"{user} is {_with_article(role)} of {project}")


@members.command(name="rm")
@click.argument("project", metavar="PROJECT")
@click.argument("user", metavar="USER")
def rm_member(*, project: str, user: str) -> None:
    """End a membership."""
    found = connect().set_member(project, user, None)
    answer({"members": found}, f"{user} is no member of {project}")


def _given(name: str, fields: dict[str, Any], present: AccountSettings) -> tuple[AccountSettings, str | None]:
    """The present settings with those that the command line gives, and the password that the user types."""
    password = typed_password(f"new password of {name}", confirm=True) if fields.pop("password") else None
    given = {key: value for key, value in fields.items() if value is not None}
    if "role" in given:
        given["role"] = ActorRole(given["role"])
    return replace(present, **given), password


def typed_password(text: str, *, confirm: bool = False) -> str:
    """A password from the terminal without an echo, or a line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    typed: str = click.prompt(text, hide_input=True, confirmation_prompt=confirm, err=True)
    return typed


def _with_article(role: str) -> str:
    return f"an {role}" if role == ActorRole.ADMIN else f"a {role}"


def _next_step(account: Account) -> str:
    return "" if account.has_password else f"; tarmac tokens add LABEL --user {account.name} makes a token"
