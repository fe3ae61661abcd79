"""The sockets of a server: unix sockets of its home, and addresses of TCP if they are set."""

import ipaddress
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import IO

from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.home import Home

_BACKLOG = 2048

SHORTEST_TOKEN = 20
_NEW_TOKEN = "remove it, and the next server makes a new one"


def listen_on_home(path: Path) -> socket.socket:
    """Listen on a socket of the home; replaces the socket of a dead server.

    The process must have the home as its working directory: the address is relative, so that the path may be
    of any length.
    """
    path.unlink(missing_ok=True)  # safe to remove: this server holds the home's lock
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path.name)
    path.chmod(0o600)
    listener.listen(_BACKLOG)
    return listener


def listen_on_loopback(address: str) -> socket.socket:
    """Listen on HOST:PORT, an address reachable only from this machine; raises InvalidInput otherwise."""
    loopback_address(address)
    return listen_on(address)


def listen_on(address: str) -> socket.socket:
    """Listen on HOST:PORT; raises InvalidInput if it is no address, and Unavailable if it is in use."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as problem:
        listener.close()
        raise Unavailable(f"cannot listen on {address}: {problem.strerror}") from problem
    return listener


def loopback_address(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT; raises InvalidInput unless it is a loopback address with a port."""
    host, port = split_address(address)
    if not ipaddress.ip_address(host).is_loopback:
        raise InvalidInput(
            f"listen: {host!r} can be reached by others, who could read the token where there is no TLS",
            hint="listen on 127.0.0.1, and bring the port to other machines with ssh -L",
        )
    return host, port


def split_address(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT, where HOST is a number or `localhost`; raises InvalidInput otherwise."""
    host, _, port = address.rpartition(":")
    name = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        name = ""
    if not name or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(
            f"listen: {address!r} is not HOST:PORT with the number of an address of this machine",
            hint="such as 127.0.0.1:8400, or 0.0.0.0:8400 for all addresses",
        )
    return name, int(port)


def token_of(home: Home) -> str:
    """The token of a home, created at first use; only the user can read it.

    Raises Refused for a token that others could have read or written, or could guess.
    """
    try:
        file = os.open(home.token, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise Refused(
            f"the token {home.token} cannot be read: {problem.strerror}", hint=_NEW_TOKEN
        ) from problem
    else:
        with os.fdopen(file, "rb") as stream:
            return _checked_token(home, stream)
    token = secrets.token_urlsafe(32)
    file = os.open(home.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(f"{token}\n")
    return token


def _checked_token(home: Home, stream: IO[bytes]) -> str:
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"the token {home.token} is no file", hint=_NEW_TOKEN)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        raise Refused(f"others than you can read or change the token {home.token} ({mode})", hint=_NEW_TOKEN)
    token = stream.read(4096).decode(errors="replace").strip()
    if len(token) < SHORTEST_TOKEN or len(set(token)) < SHORTEST_TOKEN // 2 or not token.isprintable():
        raise Refused(
            f"the token in {home.token} can be guessed: it has {len(token)} characters, "
            f"{len(set(token))} of them different",
            hint=_NEW_TOKEN,
        )
    return token
