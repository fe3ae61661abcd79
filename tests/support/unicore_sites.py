"""Sites of UNICORE with two users, and the access of each. Used by the tests of that engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tarmac.engines.unicore.client import Credentials, Unicore
from unicore_far_side import User
from unicore_server import Served, served

NAMES = ("ada", "bob")


@contextmanager
def serving(directory: Path, **variables: str) -> Iterator[Served]:
    """A site whose users are both the one who tests, with directories of their own."""
    users = []
    for name in NAMES:
        (directory / name).mkdir(parents=True)
        users.append(User(name, f"pass of {name}", directory / name))
    with served(directory / "server", users, variables) as made:
        yield made


def login(site: Served, name: str = "ada", **given: Any) -> Unicore:
    """A user's access to a site."""
    password = site.site.users[name].password
    return access(site, lambda: {"user": name, "password": password}, **given)


def access(site: Served, credentials: Credentials, **given: Any) -> Unicore:
    """The access of whoever has these credentials, closed with the site."""
    made = Unicore(site.url, credentials, **{"ca": site.ca, **given})
    site.closing.callback(made.close)
    return made
