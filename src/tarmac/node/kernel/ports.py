"""Free ports of this machine for the rendezvous of workers. Called by a hook and by the local engine."""

from __future__ import annotations

import errno
import os
import socket
import zlib
from itertools import chain
from typing import AbstractSet

FIRST_PORT = 10_000
EPHEMERAL_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
EPHEMERAL_FIRST = 32_768
"""The start of the range for outgoing connections if the kernel does not report it."""

ANYWHERE = "0.0.0.0"


def find_free(address: str = ANYWHERE, taken: AbstractSet[int] = frozenset()) -> int:
    """A free port, at `address` or at all addresses, below the range of outgoing connections.

    The search starts at a random port: one that was free a moment ago is the most likely to be requested
    again. Raises OSError if there is none.
    """
    last = _ephemeral_first() - 1
    first = FIRST_PORT + int.from_bytes(os.urandom(4), "big") % (last - FIRST_PORT + 1)
    for port in chain(range(first, last + 1), range(FIRST_PORT, first)):
        if port not in taken and is_free(port, address):
            return port
    raise OSError(f"no port is free at {address} up to {last}")


def derived(name: str) -> int:
    """The port derived from a name, the same on all machines."""
    return FIRST_PORT + zlib.crc32(name.encode()) % (EPHEMERAL_FIRST - FIRST_PORT)


def is_free(port: int, address: str = ANYWHERE) -> bool:
    """Whether a port is free: workers may listen at their own address or, like torch's store, at all."""
    if not _can_bind(socket.AF_INET, address, port) or not _can_bind(socket.AF_INET, ANYWHERE, port):
        return False
    return not socket.has_ipv6 or _can_bind(socket.AF_INET6, "::", port)


def _ephemeral_first() -> int:
    try:
        with open(EPHEMERAL_RANGE) as file:
            first = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_FIRST
    return first if first > FIRST_PORT else EPHEMERAL_FIRST


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # this machine lacks the family, so no process can listen there
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closing connection does not listen
        try:
            if family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
        except OSError as error:
            return family is socket.AF_INET6 and error.errno == errno.EADDRNOTAVAIL  # IPv6 is disabled
    return True
