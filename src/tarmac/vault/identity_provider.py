"""The client of an identity provider (OpenID Connect): its pages, codes and tokens, and the claims in them.

Called by `server.accounts.sign_on`. Authlib has the protocol, joserfc checks signatures. Each method raises
Unavailable if the provider does not answer as OpenID Connect demands, and Unauthorized if it refuses.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

import msgspec
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from tarmac.model.codec import ready
from tarmac.model.errors import TarmacError, Unauthorized, Unavailable
from tarmac.model.ports import Clock
from tarmac.vault.turns import Turns

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""The signatures of ID tokens that count: by private keys of the provider alone."""

LEEWAY_S = 60
"""Maximum difference between the clocks of the provider and this server."""

TIMEOUT_S = 10.0
LOOK_AGAIN_S = 3600.0
"""Maximum age of the provider's description and keys."""

LARGEST = 1 << 20

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_SECONDS = {"expires_in_s": "expires_in", "interval_s": "interval"}
_CLOCKS = "compare the clocks of the provider and of this server"
_LATER = "try again later"

Record = TypeVar("Record")


class Pending(Exception):
    """The user has not confirmed the login yet. `slow_down`: the provider wants fewer questions."""

    def __init__(self, *, slow_down: bool) -> None:
        super().__init__()
        self.slow_down = slow_down


class DeviceCode(Struct, frozen=True, kw_only=True, rename=_SECONDS):
    """A code that the user types into a page of the provider (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in_s: float
    interval_s: float = 5.0

    @property
    def form(self) -> dict[str, str]:
        """The form that redeems the code."""
        return {"grant_type": _DEVICE, "device_code": self.device_code}


class _Description(Struct, frozen=True, kw_only=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    device_authorization_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    revocation_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(Struct, frozen=True, kw_only=True):
    id_token: str
    access_token: str


class _Failure(Struct, frozen=True, kw_only=True):
    error: str
    error_description: str = ""


class IdentityProvider:
    """One provider, for one server. From any thread; a few conversations at a time."""

    def __init__(
        self, issuer: str, client_id: str, *, secret_file: str | None, scopes: tuple[str, ...], clock: Clock
    ) -> None:
        self.issuer = issuer
        self._client_id, self._secret_file, self._clock = client_id, secret_file, clock
        self._scope = " ".join(dict.fromkeys(("openid", *scopes)))
        self._opener = OpenerDirector()  # follows no redirection: a secret must not reach another host
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)
        self._turns = Turns(at_once=4)
        self._described: tuple[float, _Description] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def page(self, *, redirect_uri: str, nonce: str, verifier: str) -> str:
        """The page of a login, which redirects to `redirect_uri` with a code, and with `nonce` as state."""
        challenge = create_s256_code_challenge(verifier)
        login = {"client_id": self._client_id, "redirect_uri": redirect_uri, "scope": self._scope}
        login |= {"state": nonce, "nonce": nonce, "response_type": "code"}
        login |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        return str(prepare_grant_uri(self._description().authorization_endpoint, **login))

    def logout_page(self) -> str | None:
        """The page where a user ends the session at the provider."""
        page = self._description().end_session_endpoint
        return f"{page}?{urlencode({'client_id': self._client_id})}" if page is not None else None

    def begin_device(self) -> DeviceCode | None:
        """A new code for a user; None if the provider has no such codes."""
        endpoint = self._description().device_authorization_endpoint
        if endpoint is None:
            return None
        return self._decoded(DeviceCode, *self._post(endpoint, {"scope": self._scope}))

    def claims(self, form: Mapping[str, str], *, nonce: str | None) -> Mapping[str, Any]:
        """Redeem a code for the claims about its user, in an ID token and at the provider; raises Pending."""
        known = self._description()
        tokens = self._decoded(_Tokens, *self._post(known.token_endpoint, form))
        claims, more = self._verified(tokens.id_token, nonce), {}
        if known.userinfo_endpoint is not None:
            proof = {"Authorization": f"Bearer {tokens.access_token}"}
            more = self._decoded(dict[str, Any], *self._ask(known.userinfo_endpoint, proof))
            if more.get("sub") != claims["sub"]:
                raise Unauthorized(f"the identity provider {self.issuer} describes another user")
        if known.revocation_endpoint is not None:
            with suppress(TarmacError):  # it ends by itself
                self._post(known.revocation_endpoint, {"token": tokens.access_token})
        return {**more, **claims}

    def _verified(self, id_token: str, nonce: str | None) -> Mapping[str, Any]:
        """The claims of an ID token: signed by the provider, for this server and this login, valid now."""
        mine = {"iss": {"value": self.issuer}, "aud": {"value": self._client_id}, "sub": {"essential": True}}
        params = {"client_id": self._client_id, "nonce": nonce}
        try:
            try:
                token = jwt.decode(id_token, self._key_set(), algorithms=ALGORITHMS)
            except InvalidKeyIdError:  # the provider has new keys
                token = jwt.decode(id_token, self._key_set(max_age_s=0.0), algorithms=ALGORITHMS)
            claims = CodeIDToken(token.claims, token.header, mine, params)
            claims.validate(now=int(self._clock.now()), leeway=LEEWAY_S)
        except (JoseError, ValueError) as error:
            hint = _CLOCKS if getattr(error, "claim", None) in ("exp", "iat", "nbf") else None
            raise Unauthorized(f"the ID token of {self.issuer} is not valid: {error}", hint=hint) from None
        return dict(claims)

    def _description(self) -> _Description:
        if self._described is None or time.monotonic() - self._described[0] > LOOK_AGAIN_S:
            place = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = self._decoded(_Description, *self._ask(place))
            if found.issuer != self.issuer:
                raise Unavailable(f"the identity provider {self.issuer} calls itself {found.issuer!r:.200}")
            self._described = time.monotonic(), found
        return self._described[1]

    def _key_set(self, *, max_age_s: float = LOOK_AGAIN_S) -> KeySet:
        """The provider's public keys; those of unknown types are ignored."""
        if self._keys is None or time.monotonic() - self._keys[0] >= max_age_s:
            found = self._decoded(dict[str, Any], *self._ask(self._description().jwks_uri))
            keys = []
            for each in found.get("keys", ()):
                with suppress(JoseError, ValueError, TypeError, KeyError):
                    keys += KeySet.import_key_set({"keys": [each]}).keys
            self._keys = time.monotonic(), KeySet(keys)
        return self._keys[1]

    def _post(self, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a form, with the proof that this server is the client."""
        secret, method = None, "none"
        if self._secret_file is not None:
            basic = "client_secret_basic" in self._description().token_endpoint_auth_methods_supported
            method = "client_secret_basic" if basic else "client_secret_post"
            try:
                secret = Path(self._secret_file).read_text().strip()
            except (OSError, UnicodeDecodeError) as problem:
                raise Unavailable(f"sign_on.client_secret_file cannot be read: {problem}") from None
        client = ClientAuth(self._client_id, secret, method)
        return self._ask(*client.prepare("POST", url, {}, urlencode(form)))

    def _ask(self, url: str, headers: Mapping[str, str] | None = None, body: str = "") -> tuple[int, bytes]:
        """The status and the content of an answer, of limited size and within a limited time."""
        if not url.startswith(("https://", f"{self.issuer.partition(':')[0]}://")):
            raise Unavailable(f"the identity provider {self.issuer} names an unsafe address: {url!r:.200}")
        request = Request(url, body.encode() or None, {"Accept": "application/json", **(headers or {})})
        try:
            with self._turns.take(), self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return answer.status, _content(answer)
        except (OSError, HTTPException, ValueError) as problem:
            sentence = f"the identity provider {self.issuer} does not answer: {problem}"
            raise Unavailable(sentence, hint=_LATER) from None

    def _decoded(self, kind: type[Record], status: int, content: bytes) -> Record:
        """An answer as a record; raises Pending, or Unauthorized with the provider's own words."""
        try:
            if status == 200:
                return msgspec.json.decode(content, type=ready(kind))
            failure = msgspec.json.decode(content, type=ready(_Failure))
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            sentence = f"the identity provider {self.issuer} answers {status}: {problem}"
            raise Unavailable(sentence, hint=_LATER) from None
        if failure.error in ("authorization_pending", "slow_down"):
            raise Pending(slow_down=failure.error == "slow_down")
        reason = f"{failure.error}: {failure.error_description}".strip(": ")
        raise Unauthorized(f"the identity provider {self.issuer} refuses: {reason:.300}")


def _content(answer: Any) -> bytes:
    content, until = b"", time.monotonic() + TIMEOUT_S
    while piece := answer.read1(1 << 16):
        content += piece
        if len(content) > LARGEST or time.monotonic() > until:
            raise ValueError("its answer is too long or too slow")
    return content
