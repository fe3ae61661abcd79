"""The login of a user: the server and the token that `tarmac login` stored. Read by `Client`.

The file counts where neither TARMAC_URL nor TARMAC_HOME names a server.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from tarmac.model.errors import Unavailable


class Login(Struct, frozen=True, kw_only=True):
    """A server, a token for it, and the file of the authority that its certificate is from.

    `logout_url` is the page that ends the session at the identity provider, if that confirmed the login.
    """

    url: str
    token: str
    user: str
    ca: str | None = None
    logout_url: str | None = None


def login_file(environment: Mapping[str, str]) -> Path:
    """The file of the login: XDG's place for configuration."""
    named = Path(environment.get("XDG_CONFIG_HOME") or "")
    return (named if named.is_absolute() else Path.home() / ".config") / "tarmac" / "login.json"


def read_login(path: Path) -> Login | None:
    """The stored login; raises Unavailable for a file that is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Login)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as problem:
        raise Unavailable(
            f"the login in {path} cannot be read: {problem}", hint="tarmac login URL writes it anew"
        ) from problem


def write_login(path: Path, login: Login) -> None:
    """Store a login, readable by its user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(login) + b"\n")
    draft.replace(path)
