"""Posts JSON to URLs: webhooks. Called by `sending`. Follows no redirections, and uses no proxies.

On a server that several people share, a URL may not lead to the server's own machine or its link: whoever
submits a run would reach through it what only that machine may. What counts is the address that the
connection has, not what a name meant when it was looked up.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tarmac.model.notification import Channel, Failure, Notification
from tarmac.server.notifying import messages

GONE = frozenset({400, 401, 403, 404, 405, 410})
"""Answers after which trying again is of no use."""

_SHOWN = 200


class _Forbidden(Exception):
    """The address is one that a webhook may not reach."""


def send_webhook(
    url: str, batch: Sequence[Notification], *, timeout_s: float, private_addresses: bool
) -> Failure | None:
    """Post a batch to a URL: as what Slack takes, or the one event as it is."""
    slack = batch[0].receiver.channel is Channel.SLACK
    document: Mapping[str, Any] = messages.slack(batch) if slack else messages.event(batch[0])
    try:
        parts = urlsplit(url)
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, timeout_s)
    except ValueError:
        return Failure(reason="its address is no http(s) URL", final=True)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "tarmac"}
    try:
        connection.connect()
        if not private_addresses:
            _check_peer(connection)
        connection.request("POST", path, body=body, headers=headers)
        answer = connection.getresponse()
        words = answer.read(_SHOWN).decode(errors="replace").strip()
    except _Forbidden as refusal:
        return Failure(reason=str(refusal), final=True)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return Failure(reason=f"{parts.hostname}: {problem or type(problem).__name__}")
    finally:
        connection.close()
    if 200 <= answer.status < 300:
        return None
    reason = f"{parts.hostname} answered {answer.status} {answer.reason}" + (f": {words}" if words else "")
    return Failure(reason=reason, final=answer.status in GONE)


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    if scheme != "http" or not host:
        raise ValueError(scheme)
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _check_peer(connection: http.client.HTTPConnection) -> None:
    """Raise _Forbidden where the connection leads to this machine or its link."""
    address = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        raise _Forbidden(
            f"{connection.host} is {address}: the setting notifications.private_addresses forbids it"
        )
