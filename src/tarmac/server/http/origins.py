"""The address that a request comes from, behind any number of trusted proxies.

Called by `hosts` for rates, by `connections`, and for records of who did what from where.
"""

import ipaddress

from starlette.types import Scope

ORIGIN = "tarmac.origin"
"""The key in the scope of a request over TCP for the address of its client."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def origin_of(scope: Scope, hops: int) -> str:
    """The address of the client; empty for a request over a unix socket.

    Each of `hops` proxies adds the address of its own client to the right end of X-Forwarded-For; entries
    further left are the client's own claims. A request that passed fewer proxies has its peer's address.
    """
    peer = (scope.get("client") or ("", 0))[0]
    lists = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    entries = ",".join(lists).split(",")
    if not peer or not 0 < hops <= len(entries):
        return _written(peer) or peer
    return _written(entries[-hops].strip()) or peer


def network_of(address: str) -> str:
    """The part of an address that one sender has: of IPv6 the /64 network, else the whole address."""
    try:
        return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


def parse_address(text: str) -> _Address | None:
    """The address that a text is, of IPv4 also where it is mapped to IPv6; None for any other text."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _written(text: str) -> str | None:
    """An address with or without a port, without the port."""
    found = parse_address(text.strip("[]")) or parse_address(text.rpartition(":")[0].strip("[]"))
    return None if found is None else str(found)
