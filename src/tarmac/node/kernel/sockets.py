"""Unix sockets by paths of any length, free ports, and waits for one descriptor.

The kernel allows 107 bytes for the path of a socket, so its directory is opened instead. Waits use poll(2):
select(2) takes no descriptor above 1023, and a server with many followers has such.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import AbstractSet

from tarmac.node.kernel.handles import closing

_WAITING = 64


def listen(path: str) -> socket.socket:
    """Listen at a path, for this user alone, replacing an earlier listener. Raises OSError."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with ExitStack() as undo:
        made = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path) as short:
            with suppress(FileNotFoundError):
                os.unlink(path)
            made.bind(short)
            os.chmod(path, 0o600)
        made.listen(_WAITING)
        undo.pop_all()
    return made


def connect(path: str, *, timeout_s: float | None) -> socket.socket:
    """Connect to the listener at a path; each later step may take `timeout_s`, if given. Raises OSError."""
    with ExitStack() as undo:
        made = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        made.settimeout(timeout_s)
        with _short(path) as short:
            made.connect(short)
        undo.pop_all()
    return made


@contextmanager
def _short(path: str) -> Iterator[str]:
    directory, name = os.path.split(path)
    with closing(os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as handle:
        yield f"/proc/self/fd/{handle}/{name}"


FIRST_PORT = 10_000
EPHEMERAL_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
EPHEMERAL_FIRST = 32_768
"""The start of the range for outgoing connections if the kernel does not report it."""

ANYWHERE = "0.0.0.0"


def find_free_port(
    address: str = ANYWHERE, taken: AbstractSet[int] = frozenset(), *, first: int = FIRST_PORT
) -> int:
    """A free port from `first` on, at `address` or at all addresses, below that of outgoing connections.

    The search starts at a random port: one that was free a moment ago is the most likely to be requested
    again. Raises OSError if there is none.
    """
    last = _ephemeral_first(first) - 1
    begin = first + int.from_bytes(os.urandom(4), "big") % (last - first + 1)
    for port in chain(range(begin, last + 1), range(first, begin)):
        if port not in taken and is_free_port(port):
            return port
    raise OSError(f"no port is free at {address} up to {last}")


def derived_port(name: str) -> int:
    """The port derived from a name, the same on all machines."""
    return FIRST_PORT + zlib.crc32(name.encode()) % (EPHEMERAL_FIRST - FIRST_PORT)


def is_free_port(port: int) -> bool:
    """Whether a port is free at all addresses: workers may listen at any, or like torch's store at all."""
    for family, anywhere in ((socket.AF_INET6, "::"), (socket.AF_INET, ANYWHERE)):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # A closing connection does not listen.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family is socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # stands for IPv4 as well
                probe.bind((anywhere, port))
                return True
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False  # any other error means that IPv6 is disabled, or missing
    return False


@lru_cache(maxsize=None)
def _ephemeral_first(least: int) -> int:
    first = EPHEMERAL_FIRST
    with suppress(OSError), open(EPHEMERAL_RANGE) as bounds:
        first = int(bounds.read().split()[0])
    return first if first > least else EPHEMERAL_FIRST


def readable(source: int | socket.socket, within_s: float | None = None) -> bool:
    """Wait until a descriptor is readable (a pidfd: its process has ended); returns whether it is."""
    return _ready(source, select.POLLIN, within_s)


def writable(source: int | socket.socket, within_s: float | None = None) -> bool:
    """Wait until a descriptor is writable, or permanently closed; returns whether it is."""
    return _ready(source, select.POLLOUT, within_s)


def _ready(source: int | socket.socket, event: int, within_s: float | None) -> bool:
    poll = select.poll()
    poll.register(source, event)
    return bool(poll.poll(None if within_s is None else max(0.0, within_s) * 1000))
