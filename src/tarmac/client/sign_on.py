"""Logs a user in through the identity provider of a server. Called by `tarmac login --sso`.

The user types a code into a page of the provider; without such codes, the provider redirects the user's
browser to a port of this process.
"""

import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit

from tarmac import api
from tarmac.client.account_calls import AccountCalls
from tarmac.model.errors import Unauthorized

SLOWER_S = 5.0
"""The additional wait after the answer that a client asks too often (RFC 8628)."""

_CALLBACK = "/callback"


def sign_on(
    client: AccountCalls, *, label: str, browser: bool, show: Callable[[api.SignOn], None]
) -> tuple[api.NewToken, api.SignOn]:
    """A token for the user who confirms the login that `show` presents, and that login."""
    with _Listener(("127.0.0.1", 0), _Handler) as listener:
        address = f"http://127.0.0.1:{listener.server_address[1]}{_CALLBACK}"
        begun = client.begin_sign_on(address, browser=browser, label=label)
        show(begun)
        deadline, wait_s, answer = time.monotonic() + begun.expires_in_s, begun.interval_s, ("", "")
        if begun.code is None:
            answer = listener.redirected(begun.url, deadline)
    while time.monotonic() < deadline:
        time.sleep(wait_s)
        progress = client.finish_sign_on(begun.request, *answer)
        if progress.login is not None:
            return progress.login, begun
        wait_s += SLOWER_S * progress.slow_down
    raise Unauthorized("the login was not confirmed in time", hint="tarmac login URL --sso begins another")


class _Listener(TCPServer):
    """Receives the redirection of the browser at a loopback port."""

    state = ""
    answer: Mapping[str, str] = MappingProxyType({})

    def redirected(self, page: str, deadline: float) -> tuple[str, str]:
        """The code and the state of the redirection that ends a visit of this page."""
        self.state = dict(parse_qsl(urlsplit(page).query)).get("state", "")
        while not self.answer and (left_s := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left_s)
            self.handle_request()
        if "error" in self.answer:
            reason = self.answer.get("error_description", self.answer["error"])
            raise Unauthorized(f"the identity provider refuses the login: {reason!r:.300}")
        return self.answer.get("code", ""), self.state

    def handle_error(self, *_: object) -> None:
        """Ignore a browser that hangs up."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the browser. A request with the state of another login changes nothing."""

    server: _Listener

    def setup(self) -> None:
        """Wait a little, but for no slow sender."""
        self.request.settimeout(5.0)
        super().setup()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = dict(parse_qsl(parts.query))
        if parts.path != _CALLBACK or given.get("state") != self.server.state:
            self.send_error(404)
            return
        self.server.answer = given
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"tarmac has the answer of your identity provider. You can close this page.\n")

    def log_message(self, *_: object) -> None:
        """Write nothing to the terminal."""
