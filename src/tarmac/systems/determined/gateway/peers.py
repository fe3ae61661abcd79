"""Finds this machine's user behind a TCP connection over loopback. Called by `routes.login`.

The source is the kernel's list of connections, which processes of this machine cannot forge.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_WORD_BYTES = 4


def uid_of_peer(client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> int | None:
    """The user whose process connected `client` to `server`; None if this machine cannot find out."""
    if client is None or server is None or server[1] is None:
        return None
    try:
        near, far = ipaddress.ip_address(client[0]), ipaddress.ip_address(server[0])
        if not near.is_loopback or not far.is_loopback:
            return None
        lines = _TABLES[near.version].read_text().splitlines()[1:]
    except (OSError, ValueError):
        return None
    expected = [_written(near, client[1]), _written(far, server[1])]
    for line in lines:
        fields = line.split()
        if fields[1:3] == expected:
            return int(fields[7])
    return None


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """An address in the kernel's notation: words of four bytes, each in the byte order of the machine."""
    packed = address.packed
    words = (packed[at : at + _WORD_BYTES] for at in range(0, len(packed), _WORD_BYTES))
    return f"{''.join(f'{socket.ntohl(int.from_bytes(word)):08X}' for word in words)}:{port:04X}"
