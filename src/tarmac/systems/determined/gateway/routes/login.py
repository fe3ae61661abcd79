"""Login and logout. Listed in `application`.

Without accounts, holders of the home's token may log in under any name, with the token as the password. With
accounts, the password is that of the account, or one of its tokens. Processes of the server's own user on
this machine need no password for the default user `determined`.
"""

import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import Any

from tarmac.model.actor import Action, Actor
from tarmac.model.errors import Forbidden, Unauthorized
from tarmac.model.people.account import TOKEN_PREFIX, salted
from tarmac.server.accounts.authenticator import digest_of_salted
from tarmac.server.http.auth import CALLER, Caller
from tarmac.server.http.origins import ORIGIN, network_of
from tarmac.server.http.rates import RateKind
from tarmac.systems.determined.gateway.calls import Access, Call, Route, bearer
from tarmac.systems.determined.gateway.routes.users import is_owners, owner_names, user_record
from tarmac.systems.determined.gateway.tokens import SESSION_S, Claim, TokenKind

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_WORD_BYTES = 4


def uid_of_peer(client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> int | None:
    """The user whose process connected `client` to `server`; None if this machine cannot find out."""
    if client is None or server is None or server[1] is None:
        return None
    try:
        near, far = ipaddress.ip_address(client[0]), ipaddress.ip_address(server[0])
        if not near.is_loopback or not far.is_loopback:
            return None
        lines = _TABLES[near.version].read_text().splitlines()[1:]
    except (OSError, ValueError):
        return None
    expected = [_written(near, client[1]), _written(far, server[1])]
    for line in lines:
        fields = line.split()
        if fields[1:3] == expected:
            return int(fields[7])
    return None


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """An address in the kernel's notation: words of four bytes, each in the byte order of the machine."""
    packed = address.packed
    words = (packed[at : at + _WORD_BYTES] for at in range(0, len(packed), _WORD_BYTES))
    return f"{''.join(f'{socket.ntohl(int.from_bytes(word)):08X}' for word in words)}:{port:04X}"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_NO = "the user name or the password is wrong"


def _login(call: Call) -> Any:
    name, password = (call.typed(each, str, "a text") for each in ("username", "password"))
    gateway = call.gateway
    if not _NAME.fullmatch(name):
        raise Forbidden(_NO)
    given = password if call.field("isHashed", False) is True else salted(password)
    if given:
        allowed = is_owners(gateway, name) and gateway.tokens.is_password(given)
    else:
        allowed = name in owner_names(gateway) and _own_process(call)
    if allowed:
        token = _session(call, Claim(kind=TokenKind.USER, subject=name))
    elif given and gateway.service.accounts.exist():
        token = _of_account(call, name, given)
    else:
        raise Forbidden(_NO, hint="the password is the token in the home of the server")
    call.request.scope[CALLER] = Caller(actor=Actor(user=name), local=False)  # for the audit log
    return {"token": token, "user": user_record(gateway, name)}


def _of_account(call: Call, name: str, given: str) -> str:
    """A token for an account, by its password or by one of its tokens, in their salted form.

    A session by a token ends with it, and has no more rights. Raises Forbidden.
    """
    service = call.gateway.service
    service.rates.check(RateKind.LOGIN_ADDRESS, network_of(call.request.scope.get(ORIGIN, "")))
    service.rates.check(RateKind.LOGIN_ACCOUNT, name)
    accounts, digest = service.accounts, digest_of_salted(given)
    token = accounts.records.token(digest)
    try:
        if token is not None and token.user == name:
            accounts.callers.holder(digest)
            return _session(call, Claim(kind=TokenKind.TOKEN, subject=digest))
        return accounts.login_salted(name, given, "det user login").text
    except Unauthorized as error:
        raise Forbidden(
            error.message, hint="the password of the account will do, or one of its tokens"
        ) from None


def _session(call: Call, claim: Claim) -> str:
    return call.gateway.tokens.make(claim, until=call.gateway.service.clock.now() + SESSION_S)


def _own_process(call: Call) -> bool:
    """Whether the request comes from a process of the server's owner on this machine."""
    client = call.request.client
    near = (client.host, client.port) if client is not None else None
    return uid_of_peer(near, call.request.scope.get("server")) == os.getuid()


def _logout(call: Call) -> None:
    """Revoke the token of a login, or end a session by another token, which stays valid."""
    text = bearer(call.request)
    if text.startswith(TOKEN_PREFIX) and call.caller.token is not None:
        call.gateway.service.accounts.revoke_token(call.actor, call.caller.token)
    call.gateway.tokens.end(text, now=call.gateway.service.clock.now())


ROUTES = (
    Route("POST", "/api/v1/auth/login", _login, Access.OPEN),
    Route("POST", "/api/v1/auth/logout", _logout, action=Action.OPEN),
)
