"""Free ports on this machine, for the rendezvous of an attempt's workers. Called by `LocalEngine`."""

from __future__ import annotations

import errno
import random
import socket
from itertools import chain
from pathlib import Path

from tarmac.model.errors import Unavailable

FIRST_PORT = 10_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_FIRST = 32_768
"""Where outgoing connections start when the kernel does not say."""


def free_port(address: str, taken: frozenset[int]) -> int:
    """A port that nobody listens on, at `address` or everywhere, below the range of outgoing connections.

    The search starts anywhere: a port that was free a moment ago is the likeliest to be wanted again.
    """
    last = _ephemeral_first() - 1
    first = random.randint(FIRST_PORT, last)
    for port in chain(range(first, last + 1), range(FIRST_PORT, first)):
        if port not in taken and _free(address, port):
            return port
    raise Unavailable(f"no port is free at {address} up to {last}")


def _ephemeral_first() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_FIRST
    return first if first > FIRST_PORT else EPHEMERAL_FIRST


def _free(address: str, port: int) -> bool:
    """Workers may listen at their own address or, like torch's store, at all of IPv4 and IPv6."""
    if not _can_bind(socket.AF_INET, address, port) or not _can_bind(socket.AF_INET, "0.0.0.0", port):
        return False
    return not socket.has_ipv6 or _can_bind(socket.AF_INET6, "::", port)


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # a family this machine does not have: nobody can listen there
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closing connection is no listener
        try:
            if family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
        except OSError as error:
            return family is socket.AF_INET6 and error.errno == errno.EADDRNOTAVAIL  # IPv6 is switched off
    return True
