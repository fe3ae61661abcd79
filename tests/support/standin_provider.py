"""An identity provider in the test process: real HTTP, real signatures, and faults that no real one has."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import KeySet, RSAKey
from joserfc.jws import JWSRegistry

CLIENT = "tarmac-at-lab"
SECRET = "a secret of the client"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"

_FIRST_KEY = RSAKey.generate_key(2048, {"use": "sig", "kid": "first"})

Change = Callable[[dict[str, Any]], None]


class Provider:
    """A provider whose one user confirms every login. `now` is its clock.

    `user` has the claims about the user, of which the ID token has `sub`. `change_header` and `change_claims`
    alter an ID token before it is signed, `sign` signs it.
    """

    def __init__(self, address: str, now: Callable[[], float]) -> None:
        self.issuer, self.now = address, now
        self.user: dict[str, Any] = {"sub": "u-1", "preferred_username": "Grace", "groups": ["staff"]}
        self.devices, self.confirmed, self.impatient = True, False, False
        self.codes_work_again = False
        self.change_header: Change = lambda _: None
        self.change_claims: Change = lambda _: None
        self.sign: Callable[[dict[str, Any], bytes], str] = self._sign
        self.described: dict[str, Any] = {}
        self.requests: list[str] = []
        self.revoked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.key = _FIRST_KEY

    def rotate(self) -> None:
        """Replace the key."""
        self.key = RSAKey.generate_key(2048, {"use": "sig", "kid": "second"})

    def log_in(self, page: str) -> dict[str, str]:
        """Visit the page as a browser that does not follow the redirection; what that would bring."""
        with _OPENER.open(page, timeout=30) as answer:
            return dict(parse_qsl(urlsplit(answer.headers["Location"]).query))

    def description(self) -> dict[str, Any]:
        known = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/me",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "end_session_endpoint": f"{self.issuer}/end",
        }
        devices = {"device_authorization_endpoint": f"{self.issuer}/device"} if self.devices else {}
        return {**known, **devices, **self.described}

    def keys(self) -> dict[str, Any]:
        """The public key, beside one of a kind that no program knows."""
        return {"keys": [{"kty": "unknown", "kid": "x"}, *KeySet([self.key]).as_dict()["keys"]]}

    def authorize(self, query: dict[str, str]) -> str:
        code = secrets.token_hex(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form["grant_type"] == DEVICE:
            if self.impatient:
                self.impatient = False
                return 400, {"error": "slow_down"}
            if not self.confirmed:
                return 400, {"error": "authorization_pending"}
            return 200, self._tokens(None)
        take = self._codes.get if self.codes_work_again else self._codes.pop
        query = take(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if (
            query is None
            or query["redirect_uri"] != form["redirect_uri"]
            or query["code_challenge"] != base64.urlsafe_b64encode(digest).decode().rstrip("=")
            or query["code_challenge_method"] != "S256"
        ):
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        return 200, self._tokens(query["nonce"])

    def _tokens(self, nonce: str | None) -> dict[str, Any]:
        header = {"alg": "RS256", "kid": self.key.kid}
        now = int(self.now())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": self.user["sub"], "iat": now, "exp": now + 120}
        if nonce is not None:
            claims["nonce"] = nonce
        self.change_header(header)
        self.change_claims(claims)
        signed = self.sign(header, json.dumps(claims).encode())
        return {"access_token": "of-the-user", "token_type": "Bearer", "id_token": signed}

    def _sign(self, header: dict[str, Any], claims: bytes) -> str:
        return jws.serialize_compact(header, claims, self.key, registry=JWSRegistry(algorithms=["RS256"]))


@contextmanager
def standin_provider(now: Callable[[], float]) -> Iterator[Provider]:
    """A provider that answers until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.provider = provider = Provider(f"http://127.0.0.1:{server.server_address[1]}", now)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts, provider = urlsplit(self.path), self._provider()
        provider.requests.append(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.authorize(query))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif parts.path == "/keys":
            self._answer(200, provider.keys())
        elif parts.path == "/me":
            known = self.headers["Authorization"] == "Bearer of-the-user"
            self._answer(200 if known else 401, provider.user)
        else:
            self._answer(200, provider.description())

    def do_POST(self) -> None:
        provider = self._provider()
        provider.requests.append(self.path)
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if self.headers["Authorization"] != f"Basic {expected}":
            self._answer(401, {"error": "invalid_client"})
        elif self.path == "/device":
            code = {"device_code": "d", "user_code": "WDJB-MJHT", "expires_in": 600, "interval": 0}
            self._answer(200, {**code, "verification_uri": f"{provider.issuer}/code"})
        elif self.path == "/revoke":
            provider.revoked.append(form["token"])
            self._answer(200, {})
        else:
            self._answer(*provider.token(form))

    def _provider(self) -> Provider:
        found: Provider = self.server.provider  # type: ignore[attr-defined]
        return found

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class _Stay(urllib.request.HTTPErrorProcessor):
    def http_response(self, request: Any, response: Any) -> Any:
        return response


_OPENER = urllib.request.build_opener(_Stay)
