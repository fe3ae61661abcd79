"""The addresses that a shared server may connect to for its users. Called by webhooks and by the fetch of
datasets.

Otherwise a user could reach through a URL what only the server's own machine may reach. The check is on the
address of the connection, not on an earlier lookup of its name.
"""

from __future__ import annotations

from ipaddress import ip_address

from tarmac.model.errors import InvalidInput


def check_address(address: str, name: str) -> None:
    """Raise InvalidInput if the address of a connection to `name` is this machine or its link."""
    found = ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        raise InvalidInput(f"{name} is {found}: the setting notifications.private_addresses forbids it")
