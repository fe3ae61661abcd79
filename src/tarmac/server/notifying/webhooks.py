"""Posts JSON to URLs: webhooks. Called by `sending`. It follows no redirects and uses no proxies.

The adapters of trackers use its connections.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tarmac.model.errors import InvalidInput
from tarmac.model.notification import Channel, Failure, Notification, check_address
from tarmac.server.notifying import messages

TIMEOUT_S = 10.0
"""Maximum time for one step of a conversation with a receiver."""

GONE = frozenset({400, 401, 403, 404, 405, 410})
"""Statuses after which a retry is useless."""

_SHOWN = 200


def send_webhook(
    url: str, batch: Sequence[Notification], *, limit_s: float, private_addresses: bool
) -> Failure | None:
    """Post a batch to a URL within `limit_s`: in Slack's form, or as a single event.

    If the URL is a secret, a failure contains neither its host nor messages of the receiver or a library.
    """
    receiver = batch[0].receiver
    slack = receiver.channel is Channel.SLACK
    document: Mapping[str, Any] = messages.slack(batch) if slack else messages.event(batch[0])
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Failure(reason="its address is no http(s) URL", final=True)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Failure(reason="its address is no http(s) URL", final=True)
    try:
        with connected(parts, port, limit_s=limit_s, private_addresses=private_addresses) as connection:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Content-Type": "application/json", "User-Agent": "tarmac"}
            connection.request("POST", path, body=json.dumps(document).encode(), headers=headers)
            answer = connection.getresponse()
            words = answer.read(_SHOWN).decode(errors="replace").strip()
    except InvalidInput as refusal:
        return Failure(reason="the address is private" if receiver.secret else str(refusal), final=True)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        strerror = problem.strerror if isinstance(problem, OSError) else None
        reason = strerror or type(problem).__name__
        return Failure(reason=reason if receiver.secret else f"{parts.hostname}: {reason}")
    if 200 <= answer.status < 300:
        return None
    reason = f"the receiver answered {answer.status}"
    if not receiver.secret:
        reason = f"{parts.hostname} answered {answer.status} {answer.reason}" + (
            f": {words}" if words else ""
        )
    return Failure(reason=reason, final=answer.status in GONE)


def check_host(url: str) -> None:
    """Raise InvalidInput if a URL is one of this machine or its link; a host that is unknown now is none."""
    host = urlsplit(url).hostname or ""
    with suppress(OSError, UnicodeError):
        for *_, address in socket.getaddrinfo(host, None):
            check_address(str(address[0]), host)


@contextmanager
def connected(
    parts: SplitResult, port: int | None, *, limit_s: float, private_addresses: bool
) -> Iterator[http.client.HTTPConnection]:
    """A connection to a host, which ends after `limit_s`, even if bytes still arrive slowly."""
    host, encrypted = parts.hostname or "", parts.scheme == "https"
    kind = http.client.HTTPSConnection if encrypted else http.client.HTTPConnection
    connection = kind(host, port)
    plain = socket.create_connection((host, connection.port), TIMEOUT_S)
    with plain.dup() as same:  # the TLS socket takes over the other one
        timer = Timer(limit_s, _close, [same])
        timer.daemon = True
        timer.start()
        try:
            if not private_addresses:
                check_address(plain.getpeername()[0], host)
            context = ssl.create_default_context() if encrypted else None
            connection.sock = context.wrap_socket(plain, server_hostname=host) if context else plain
            yield connection
        finally:
            timer.cancel()
            plain.close()
            connection.close()


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
