"""Login, logout, and the list of users. Listed in `application`.

Holders of the home's token may log in under any name, with the token as the password. Processes of the
server's own user on this machine need no password for the default user `determined`.
"""

import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import Any

from tarmac.model.errors import Forbidden, NotFound
from tarmac.systems.determined.gateway.calls import Access, Call, Route, bearer
from tarmac.systems.determined.gateway.tokens import DEFAULT_USER, OPEN_USERS, SESSION_S, Claim, TokenKind

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
    hashed = call.field("isHashed", False) is True
    if password:
        allowed = gateway.tokens.is_password(password, hashed=hashed)
    else:
        allowed = name in (*OPEN_USERS, gateway.owner) and _own_process(call)
    if not allowed:
        raise Forbidden(_NO, hint="the password is the token in the home of the server")
    until = gateway.service.clock.now() + SESSION_S
    token = gateway.tokens.make(Claim(kind=TokenKind.USER, subject=name), until=until)
    return {"token": token, "user": user_record(name)}


def _own_process(call: Call) -> bool:
    """Whether the request comes from a process of the server's owner on this machine."""
    client = call.request.client
    near = (client.host, client.port) if client is not None else None
    return uid_of_peer(near, call.request.scope.get("server")) == os.getuid()


def _logout(call: Call) -> None:
    """End the session of the request's token. The home's token remains valid."""
    call.gateway.tokens.end(bearer(call.request), now=call.gateway.service.clock.now())


def _me(call: Call) -> Any:
    return {"user": user_record(call.actor.user)}


def _users(call: Call) -> Any:
    return call.page("users", sorted(_names(call)), lambda names: [user_record(name) for name in names])


def _user(call: Call) -> Any:
    name = call.path("user")
    found = next((each for each in _names(call) if name in (each, str(user_id(each)))), None)
    if found is None:
        raise NotFound(f"there is no user {name!r:.60}")
    return {"user": user_record(found)}


def _names(call: Call) -> set[str]:
    """The known users: the default user, the caller, the owner, and all users with experiments or runs."""
    owners = {each.user for each in call.plane.usage.used_slots(call.actor, None, None)}
    return {DEFAULT_USER, call.actor.user, call.gateway.owner} | owners


def user_id(name: str) -> int:
    """A number for a user: Determined's own `admin` and `determined` are 1 and 2."""
    first = {"admin": 1, DEFAULT_USER: 2}
    return first.get(name) or 3 + int.from_bytes(name.encode()[-3:])


def user_record(name: str) -> dict[str, Any]:
    """A user in Determined's form."""
    return {
        "id": user_id(name),
        "username": name,
        "displayName": "",
        "admin": True,
        "active": True,
        "remote": False,
        "agentUserGroup": None,
        "modifiedAt": None,
        "lastAuthAt": None,
    }


ROUTES = (
    Route("POST", "/api/v1/auth/login", _login, Access.OPEN),
    Route("POST", "/api/v1/auth/logout", _logout),
    Route("GET", "/api/v1/me", _me, Access.TASK),
    Route("GET", "/api/v1/users", _users),
    Route("GET", "/api/v1/users/{user}/by-username", _user),
    Route("GET", "/api/v1/users/{user}", _user),
)
