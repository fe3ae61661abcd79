"""Requests in the form of the gateway's routes, and the declaration of routes. Called by `application`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from starlette.requests import Request

from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.tokens import Claim


class Access(Enum):
    """The required access. OPEN: none, USER: a login, TASK: a login, or the token of code inside a run."""

    OPEN = "open"
    USER = "user"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `body` is its JSON (a dict or any other value; {} if it is empty).

    `claim` belongs to the token of the request; None on an open route.
    """

    gateway: Gateway
    actor: Actor
    claim: Claim | None
    request: Request
    body: Any

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def number(self, name: str) -> int:
        """A part of the path that is a whole number; raises InvalidInput for any other text."""
        return whole(name, self.path(name))

    def text(self, name: str) -> str | None:
        """A parameter of the query; None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def texts(self, name: str) -> list[str]:
        """All values of a repeatable parameter of the query."""
        return self.request.query_params.getlist(name)

    def whole(self, name: str, default: int = 0) -> int:
        """A parameter of the query that is a whole number; raises InvalidInput for any other text."""
        text = self.text(name)
        if text is None:
            return default
        return whole(name, text)

    def flag(self, name: str) -> bool | None:
        """A parameter of the query that is `true` or `false`; None if it is missing."""
        text = self.text(name)
        return None if text is None else text.lower() == "true"

    def field(self, name: str, default: Any = None) -> Any:
        """A field of the body; the default if it is missing or null."""
        found = self.body.get(name) if isinstance(self.body, Mapping) else None
        return default if found is None else found

    def whole_field(self, name: str, default: int = 0) -> int:
        """A field of the body that is a whole number; raises InvalidInput for any other value."""
        return whole(name, self.field(name, default))


def bearer(request: Request, header: str = "authorization") -> str:
    """The token in a header of a request; "" if there is none."""
    return request.headers.get(header, "").removeprefix("Bearer ").strip()


def whole(name: str, value: Any) -> int:
    """A whole number of 64 bits, from a JSON number or a text; raises InvalidInput."""
    is_text = isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= _MOST_DIGITS
    number = int(value) if is_text else value
    if type(number) is not int or number.bit_length() > 63:
        raise InvalidInput(f"{name}: a whole number of 64 bits is expected, not {value!r:.60}")
    return number


_MOST_DIGITS = 20

Handler = Callable[[Call], Any] | Callable[[Call], Awaitable[Any]]
"""Answers a call with plain values, which become JSON, or with a `Response`. Plain functions run in a thread;
async ones run in the event loop, for handlers that wait."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, as `/api/v1/trials/{trial}`."""

    method: str
    path: str
    handler: Handler
    access: Access = Access.USER


get = partial(Route, "GET")
post = partial(Route, "POST")
put = partial(Route, "PUT")
patch = partial(Route, "PATCH")
delete = partial(Route, "DELETE")
