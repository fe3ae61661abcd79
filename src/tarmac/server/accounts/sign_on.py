"""Single sign-on: logins through an identity provider, and the accounts of its users. Made by `wiring`.

The state of a login travels sealed through the client that began it, so any server on the database finishes
it. The id of its token is in it: a second token from one login would have the id of the first.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tarmac import api
from tarmac.model.actor import ActorRole
from tarmac.model.codec import ready
from tarmac.model.errors import InvalidInput, Refused, Unauthorized
from tarmac.model.people.account import Account
from tarmac.model.ports import Clock
from tarmac.server.accounts.account_service import LOGIN_S, NAME, NAMES, AccountService, first_account
from tarmac.server.accounts.authenticator import API_USER
from tarmac.server.settings import SignOnSettings
from tarmac.vault.keys import CannotOpen, KeyFile, seal, unseal

if TYPE_CHECKING:
    from tarmac.vault.identity_provider import IdentityProvider

VALID_S = 300.0
"""How long a user may take to log in at the provider."""

_PLACE = "sign-on"
_CALLBACK = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/callback")


class _Begun(Struct, frozen=True, kw_only=True):
    """A login that has begun. `form` redeems its code; `nonce` is that of its page, None for a device."""

    token_id: str
    label: str
    expires_at: float
    nonce: str | None
    form: dict[str, str]


class SignOnService:
    """Begins and finishes logins. From any thread."""

    def __init__(
        self, settings: SignOnSettings, accounts: AccountService, keys: KeyFile, clock: Clock
    ) -> None:
        self._settings, self._accounts, self._keys, self._clock = settings, accounts, keys, clock

    @property
    def available(self) -> bool:
        """Whether this server has a provider."""
        return self._settings.issuer is not None and self._settings.client_id is not None

    @cached_property
    def _provider(self) -> IdentityProvider:
        settings = self._settings
        if settings.issuer is None or settings.client_id is None:
            raise Refused("this server has no single sign-on", hint="tarmac login URL --user NAME")
        from tarmac.vault.identity_provider import IdentityProvider  # noqa: PLC0415 - most servers have none

        secret_file, scopes = settings.client_secret_file, settings.scopes
        return IdentityProvider(
            settings.issuer, settings.client_id, secret_file=secret_file, scopes=scopes, clock=self._clock
        )

    def begin(self, body: api.BeginSignOnBody) -> api.SignOn:
        """Begin a login: by a code, if the provider has them, else by a page in the user's browser."""
        provider, address, nonce, valid_s = self._provider, body.redirect_uri, None, VALID_S
        if not _CALLBACK.fullmatch(address):
            raise InvalidInput(f"redirect_uri: {address!r} is not http://127.0.0.1:PORT/callback")
        device = None if body.browser else provider.begin_device()
        if device is not None:
            url, form, valid_s = device.verification_uri, device.form, min(VALID_S, device.expires_in_s)
        else:
            nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
            url = provider.page(redirect_uri=address, nonce=nonce, verifier=verifier)
            form = {"redirect_uri": address, "code_verifier": verifier, "grant_type": "authorization_code"}
        ends_at, token_id = self._clock.now() + valid_s, secrets.token_hex(6)
        begun = _Begun(token_id=token_id, label=body.label, expires_at=ends_at, nonce=nonce, form=form)
        return api.SignOn(
            request=seal(msgspec.json.encode(begun).decode(), self._keys.create(), _PLACE),
            url=url,
            code=device.user_code if device is not None else None,
            expires_in_s=valid_s,
            interval_s=device.interval_s if device is not None else 0.0,
            logout_url=provider.logout_page(),
        )

    def finish(self, body: api.SignOnBody) -> api.SignOnProgress:
        """A token for the user whom the provider names, or the news that the user is not ready yet."""
        provider, begun = self._provider, self._opened(body.request)
        form, nonce = begun.form, begun.nonce
        if nonce is not None:
            form["code"] = body.code
            if not hmac.compare_digest(body.state.encode(), nonce.encode()):
                raise Unauthorized("this code belongs to another login", hint=_AGAIN)
        from tarmac.vault.identity_provider import Pending  # noqa: PLC0415 - as above

        try:
            account = self._account(provider.claims(form, nonce=nonce))
            made = self._accounts.new_token(account, begun.label, lifetime_s=LOGIN_S, token_id=begun.token_id)
        except Pending as news:
            return api.SignOnProgress(slow_down=news.slow_down)
        return api.SignOnProgress(login=made)

    def _opened(self, request: str) -> _Begun:
        for key in self._keys.read():
            with suppress(CannotOpen):
                begun = msgspec.json.decode(unseal(request, key, _PLACE), type=ready(_Begun))
                if begun.expires_at <= self._clock.now():
                    raise Unauthorized("this login took too long", hint=_AGAIN)
                return begun
        raise Unauthorized("this server began no such login", hint=_AGAIN)

    def _account(self, claims: Mapping[str, Any]) -> Account:
        """The account of a user of the provider, with the role that the user's groups give."""
        self._accounts.callers.forget()
        accounts = self._accounts.callers.people().accounts
        if not accounts:
            raise first_account("NAME")
        identity = f"{self._settings.issuer}#{claims['sub']}"
        account = next((each for each in accounts.values() if each.identity == identity), None)
        if account is None:
            account = self._new_account(identity, claims)
        if account.disabled:
            raise Unauthorized(f"the account {account.name} is disabled", hint="ask an admin of the server")
        role = self._role(claims)
        return account if role in (None, account.role) else self._accounts.put(replace(account, role=role))

    def _new_account(self, identity: str, claims: Mapping[str, Any]) -> Account:
        """A new account, of a member. No name of another account or of a user of the server is given away."""
        hint = f"an admin adds one: tarmac users add NAME --identity {identity}"
        if len(identity) > 512 or not self._settings.create_accounts:
            raise Unauthorized(f"no account has the identity {identity:.600}", hint=hint)
        given = map(claims.get, ("preferred_username", "email"))
        texts = [each.lower() for each in given if isinstance(each, str)]
        name = next((each for each in texts if NAME.fullmatch(each)), None)
        if name is None:
            raise Refused(f"no account can have the name of {identity}", hint=f"{NAMES}; {hint}")
        new = Account(name=name, created_at=self._clock.now(), identity=identity)
        owner = self._accounts.callers.local(None).actor.user
        if name in (owner, API_USER, "root") or not self._accounts.records.add_account(new):
            raise Refused(f"the name {name} is another account's, not that of {identity}", hint=hint)
        self._accounts.callers.forget()
        return new

    def _role(self, claims: Mapping[str, Any]) -> ActorRole | None:
        """The highest role of the user's groups, or that of a member; None if groups give no roles here."""
        if not self._settings.groups:
            return None
        found = claims.get(self._settings.groups_claim)
        groups = found if isinstance(found, list) else [found]
        given = [role for group, role in self._settings.groups.items() if group in groups]
        return next((role for role in ActorRole if role in given), ActorRole.MEMBER)


_AGAIN = "begin again: tarmac login URL --sso"
