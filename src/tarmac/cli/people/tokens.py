"""`tarmac login`, `logout`, `tokens` and `audit`: how a shared server knows its users, and its log."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from tarmac import api
from tarmac.cli.commands.usage import moment
from tarmac.cli.dialogue import answer, connect, print_list
from tarmac.cli.lazy import Subcommands, command
from tarmac.cli.options import COUNT, duration, flag, repeated
from tarmac.cli.people.users import typed_password
from tarmac.cli.views.amounts import age, until
from tarmac.cli.views.table import Column, Table
from tarmac.model.actor import Action
from tarmac.model.people.account import TOKEN_DAYS, AuditEntry, Token

_DISPLAYS = {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"}
"""Variables of a shell from which a browser can be opened."""

SCOPES = [action.value for action in Action if action is not Action.OPEN]


def _state(token: Token, now: float) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "no end"
    return "expired" if token.expires_at <= now else until(token.expires_at, now)


TOKENS: Table[Token] = (
    Column("ID", lambda token, _: token.id),
    Column("USER", lambda token, _: token.user),
    Column("LABEL", lambda token, _: token.label, flexible=True),
    Column("SCOPES", lambda token, _: ",".join(token.scopes) if token.scopes is not None else "all"),
    Column("VALID", _state),
    Column(
        "USED", lambda token, now: age(token.last_used_at, now) if token.last_used_at else "-", right=True
    ),
)
AUDIT: Table[AuditEntry] = (
    Column("AT", lambda entry, now: age(entry.at, now), right=True),
    Column("USER", lambda entry, _: entry.user or "-"),
    Column("TOKEN", lambda entry, _: entry.token or "-", optional=True),
    Column("FROM", lambda entry, _: entry.origin),
    Column("STATUS", lambda entry, _: entry.status, right=True),
    Column("REQUEST", lambda entry, _: f"{entry.action} {entry.target}", flexible=True),
)


@command()
@click.argument("url", metavar="URL")
@click.option("--user", metavar="NAME", help="The user; by default the one of this shell.")
@flag("--sso", help="Log in through the identity provider of the server: by a code, or by a browser.")
@flag("--browser", help="By a browser on this machine, also where the provider has codes.")
@click.option("--token-file", metavar="PATH", help="Take a token from this file (- is standard input).")
@click.option("--ca", metavar="FILE", help="The file of the authority that signed the server's certificate.")
def login(
    *, url: str, user: str | None, sso: bool, browser: bool, token_file: str | None, ca: str | None
) -> None:
    """Log in to a shared server, which commands use from then on.

    The password is asked for, without an echo. TARMAC_URL and TARMAC_HOME still choose another server.

    \b
    tarmac login https://tarmac.example.org:8400 --user ada
    tarmac login https://tarmac.example.org:8400 --sso
    """
    from tarmac.client import Client
    from tarmac.client.logins import Login, login_file, write_login

    ca = str(Path(ca).absolute()) if ca is not None else None
    logout_url, label = None, f"tarmac login on {socket.gethostname()}"
    if token_file is not None:
        with click.open_file(token_file) as file:
            text = file.readline().strip()
    elif sso or browser:
        from tarmac.client.sign_on import sign_on

        with Client(url, token="", authority=ca) as client:
            made, begun = sign_on(client, label=label, browser=browser, show=_show_page)
        text, logout_url = made.text, begun.logout_url
    else:
        user = user or os.environ.get("USER") or ""
        with Client(url, token="", authority=ca) as client:
            password = typed_password(f"password of {user} at {url}")
            text = client.login(user, password, label=label).text
    with Client(url, token=text, authority=ca) as client:
        account = client.account()
    path = login_file(os.environ)
    write_login(path, Login(url=url, token=text, user=account.name, ca=ca, logout_url=logout_url))
    answer(account, f"you are {account.name} ({account.role}) at {url}")


def _show_page(begun: api.SignOn) -> None:
    """Print the page of a login, and open it where this machine has a browser."""
    where = "there" if begun.code is None else f"there, with the code {begun.code}"
    click.echo(f"Open {begun.url}\nand confirm the login {where}.", err=True)
    if begun.url.startswith(("https://", "http://")) and not _DISPLAYS.isdisjoint(os.environ):
        click.launch(begun.url)


@command()
def logout() -> None:
    """Revoke the token of the login, and forget it."""
    from tarmac.client import Client
    from tarmac.client.logins import login_file, read_login

    path = login_file(os.environ)
    found = read_login(path)
    if found is None:
        answer({"url": None}, "", empty="you are not logged in")
        return
    try:
        with Client(found.url, token=found.token, authority=found.ca) as client:
            client.logout()
    finally:
        Path(path).unlink(missing_ok=True)
    ended = f"logged out of {found.url}"
    if found.logout_url is not None:
        ended += f"; your session at the identity provider ends at {found.logout_url}"
    answer({"url": found.url}, ended)


@click.group(cls=Subcommands)
def tokens() -> None:
    """List, add and revoke tokens, by which programs show who they are."""


@tokens.command()
@click.option("--user", metavar="NAME", help="Those of another user, for admins.")
@flag("--all", "everybody", help="Those of all users, for admins.")
def ls(*, user: str | None, everybody: bool) -> None:
    """List tokens; no text of one is ever shown again."""
    found = connect().tokens(user=user, everybody=everybody)
    print_list("tokens", found, TOKENS, empty="there is no token; tarmac tokens add LABEL adds one")


@tokens.command()
@click.argument("label", metavar="LABEL")
@click.option("--user", metavar="NAME", help="For another account, such as that of a program; for admins.")
@repeated("--scope", "scopes", type=click.Choice(SCOPES), help="Only for this. May be repeated.")
@click.option(
    "--for",
    "lifetime_s",
    type=duration,
    default=f"{TOKEN_DAYS}d",
    show_default=True,
    metavar="TIME",
    help="Its lifetime.",
)
@flag("--no-end", help="Without an end, for service accounts.")
def add(*, label: str, user: str | None, scopes: tuple[str, ...], lifetime_s: float, no_end: bool) -> None:
    """Print a new token, once. LABEL says what it is for.

    \b
    tarmac tokens add notebook
    tarmac tokens add "nightly runs" --user nightly --scope read --scope submit --no-end
    """
    made = connect().add_token(
        label,
        user=user,
        scopes=[Action(scope) for scope in scopes] or None,
        lifetime_s=None if no_end else lifetime_s,
    )
    answer(made, made.text)


@tokens.command()
@click.argument("token", metavar="ID")
def revoke(*, token: str) -> None:
    """Revoke a token, by its id."""
    gone = connect().revoke_token(token)
    answer(gone, f"the token {gone.id} ({gone.label}) of {gone.user} is revoked")


@command()
@click.option("--user", metavar="NAME", help="Only those of this user.")
@click.option("--since", type=moment, metavar="TIME", help="From then on: 7d (ago), or 2026-11-01T08:00.")
@click.option("--limit", type=COUNT, default=100, show_default=True, metavar="N", help="At most N.")
def audit(*, user: str | None, since: float | None, limit: int) -> None:
    """List changes and refusals on a shared server, with user, time and address. For admins."""
    found = connect().audit(user=user, since=since or 0.0, limit=max(limit, 1))
    print_list("audit", found, AUDIT, empty="no change and no refusal since the first account")
