"""The login of a user: the server and the token that `tarmac login` stored. Read by `Client`.

The file counts where neither TARMAC_URL nor TARMAC_HOME names a server.
"""

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tarmac.model.errors import Unavailable
from tarmac.model.home import xdg_directory


class Login(Struct, frozen=True, kw_only=True):
    """A server, a token for it, and the file of the authority that its certificate is from.

    `logout_url` is the page that ends the session at the identity provider, if that confirmed the login.
    """

    url: str
    token: str
    user: str
    ca: str | None = None
    logout_url: str | None = None


def login_file(environment: Mapping[str, str]) -> str:
    """The file of the login: XDG's place for configuration."""
    base = xdg_directory(environment, "XDG_CONFIG_HOME", os.path.expanduser("~/.config"))
    return f"{base}/tarmac/login.json"


def read_login(path: str) -> Login | None:
    """The stored login; raises Unavailable for a file that is none."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Login)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as problem:
        raise Unavailable(
            f"the login in {path} cannot be read: {problem}", hint="tarmac login URL writes it anew"
        ) from problem


def write_login(path: str, login: Login) -> None:
    """Store a login, readable by its user alone."""
    from tarmac.node.files import untrusted

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    untrusted.replace(path, msgspec.json.encode(login) + b"\n", mode=0o600)
