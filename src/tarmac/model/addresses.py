"""Which addresses a shared server connects to for its users. Called by webhooks and by the fetch of datasets.

Who submits a run would reach through a URL what only the server's own machine may. What counts is the address
that a connection has, not what a name meant when it was looked up.
"""

from __future__ import annotations

from ipaddress import ip_address

from tarmac.model.errors import InvalidInput


def check_address(address: str, name: str) -> None:
    """Raise InvalidInput where the address that a connection to `name` has is this machine or its link."""
    found = ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        raise InvalidInput(f"{name} is {found}: the setting notifications.private_addresses forbids it")
