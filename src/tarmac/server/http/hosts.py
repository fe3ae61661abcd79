"""Checks every request over TCP before anything else: its sender's rate, its host name, and its site.

A page of a foreign site can make a browser send requests here: to a name of its own that leads to this
address (DNS rebinding), or directly, with the user's session. `daemon` wraps the whole application in it.
"""

import os
from collections.abc import Collection
from functools import partial
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tarmac.model.errors import Forbidden, Misdirected, TarmacError
from tarmac.server.http.answers import response, send_after_record
from tarmac.server.http.auth import Audit
from tarmac.server.http.origins import ORIGIN, network_of, origin_of, parse_address
from tarmac.server.http.rates import RateKind, Rates

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site: a program, a page of this server, and a user who typed the address."""


class RequestChecks:
    """The application behind the checks. `names`: those of this server beside its addresses."""

    def __init__(
        self, app: ASGIApp, *, names: Collection[str], rates: Rates, hops: int, audit: Audit
    ) -> None:
        """`audit` stores each refused request and its status before the answer."""
        self._app, self._audit = app, audit
        self._names = frozenset(name.lower() for name in names)
        self._rates = rates
        self._hops = hops

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        local, port = scope.get("server") or ("", None)
        if port is not None:
            scope[ORIGIN] = origin_of(scope, self._hops)
            try:
                self._rates.check(RateKind.REQUESTS, network_of(scope[ORIGIN]))
                self._check_host(Headers(scope=scope).getlist("host"), local)
                self._check_site(scope)
            except TarmacError as error:
                await response(error)(
                    scope, receive, send_after_record(send, scope, receive, partial(self._audit, scope))
                )
                return
        await self._app(scope, receive, send)

    def _check_host(self, given: list[str], local: str) -> None:
        name = _host_of(given[0]) if len(given) == 1 else None
        ours = parse_address(local)
        found = parse_address("127.0.0.1" if name == "localhost" else name or "")
        both = (found, ours) if found is not None and ours is not None else ()
        if name in self._names or (both and (found == ours or all(each.is_loopback for each in both))):
            return
        raise Misdirected(
            f"the request is for the host {', '.join(given)[:200]!r}, which is not a name of this server",
            hint="its administrator adds names with `host_names` in the table [server] of settings.toml",
        )

    def _check_site(self, scope: Scope) -> None:
        if scope.get("method") in _SAFE_METHODS:
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        place = (origin or "").partition("://")[2].lower()
        own = origin is None or place == headers["host"].lower() or _host_of(place) in self._names
        if not own or headers.get("sec-fetch-site") not in _OWN_SITES:
            raise Forbidden(
                f"a page of another site sent this request (origin {origin!r:.200})",
                hint="pages of other sites may not change anything here",
            )


def machine_names() -> list[str]:
    """The host names of this machine, whole and without a domain."""
    name = os.uname().nodename
    return [name, name.partition(".")[0]]


def _host_of(netloc: str) -> str | None:
    """The host in HOST:PORT, in lower case; None where the text has none."""
    try:
        parts = urlsplit(f"//{netloc}")
    except ValueError:
        return None
    return parts.hostname if parts.netloc == netloc and parts.username is None else None
