"""Requests in the form of the gateway's routes, the declaration of routes, and the notation of values.

Called by `application`, the routes and their records.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from math import isfinite
from typing import Any, TypeVar

from starlette.requests import Request

from tarmac.control.permissions import check, may_see
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Action, Actor
from tarmac.model.errors import Forbidden, InvalidInput, NotFound
from tarmac.model.experiment import Experiment, Trial
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.server.http.auth import CALLER, Caller
from tarmac.systems.determined.gateway.gateway import Gateway

Item = TypeVar("Item")
Typed = TypeVar("Typed", list[Any], dict[str, Any], str)


class Access(Enum):
    """The required access. OPEN: none, USER: a login, TASK: a login, or the token of code inside a run."""

    OPEN = "open"
    USER = "user"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `body` is its JSON (a dict or any other value; {} if it is empty).

    `attempt_id` is the attempt whose code calls with its token; None for a user, and on an open route.
    """

    gateway: Gateway
    actor: Actor
    attempt_id: str | None
    request: Request
    body: Any

    @property
    def caller(self) -> Caller:
        """The user who sent the request, with their token; code of runs and open routes have none."""
        found: Caller = self.request.scope[CALLER]
        return found

    @property
    def plane(self) -> ControlPlane:
        """The control plane of the server."""
        return self.gateway.plane

    @property
    def store(self) -> Store:
        """The records of the server."""
        return self.gateway.store

    @property
    def descends(self) -> bool:
        """Whether the requested order is descending."""
        return self.text("orderBy") == "ORDER_BY_DESC"

    def experiment(self, number: int | None = None) -> Experiment:
        """The experiment with a number (None: that in the path); raises NotFound, also for a hidden one."""
        number = self.number("experiment") if number is None else number
        experiment = self.gateway.experiment(number)
        self.check_visible(experiment, f"experiment not found: {number}")
        return experiment

    def run_of_trial(self, number: int) -> Run:
        """The run of a trial; raises NotFound, also for a hidden one, and Forbidden like `check_owner`."""
        run = self.gateway.run_of_trial(number)
        self.check_visible(run, f"trial not found: {number}")
        self.check_owner(run.user, f"trial {number}")
        return run

    def trial(self) -> tuple[Trial, Run]:
        """The trial of an experiment whose number is in the path, and its run; raises as `run_of_trial`."""
        run = self.run_of_trial(self.number("trial"))
        return self.gateway.trial_of(run), run

    def run_of_task(self, task: str) -> Run:
        """The run of the trial behind a task; raises NotFound, also for a hidden one."""
        run = self.gateway.run_of_task(task)
        self.check_visible(run, f"task not found: {task:.100}")
        return run

    def check_visible(self, item: Run | Experiment, message: str) -> None:
        """Raises NotFound with this message for a run or an experiment that the caller may not see."""
        if not may_see(self.actor, item):
            raise NotFound(message)

    def check_change(self, run: Run) -> None:
        """Raises Forbidden if a user may not change a run; its own code is checked by `check_owner`."""
        if self.attempt_id is None:
            check(self.actor, Action.CONTROL, owner=run.user, project=run.spec.project)

    def check_owner(self, user: str, what: str) -> None:
        """Raises Forbidden if the code of a run requests an object of another user."""
        if self.attempt_id is not None and user != self.actor.user:
            raise Forbidden(f"{what} is of a run of {user}")

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
        found = inner(self.body, name)
        return default if found is None else found

    def whole_field(self, name: str) -> int:
        """A field of the body that is a whole number (0: missing); raises InvalidInput for any other."""
        return whole(name, self.field(name, 0))

    def typed(self, name: str, kind: type[Typed], description: str) -> Typed:
        """A field of the body of one type, an empty one if it is missing; raises InvalidInput otherwise."""
        found = self.field(name, kind())
        if not isinstance(found, kind):
            raise InvalidInput(f"{name}: {description} is expected")
        return found

    def page(
        self, name: str, items: Sequence[Item], record: Callable[[Sequence[Item]], Sequence[Any]] = list
    ) -> dict[str, Any]:
        """The requested part of a list under the key `name`, and the range of that part.

        A negative `offset` counts from the end; `limit` 0 is all, -2 none (the count alone).
        """
        total, offset, limit = len(items), self.whole("offset"), self.whole("limit")
        begin = min(max(total + offset if offset < 0 else offset, 0), total)
        end = begin if limit < -1 else total if limit <= 0 else min(begin + limit, total)
        shown = record(items[begin:end])
        pagination = {"offset": begin, "limit": limit, "startIndex": begin, "endIndex": end, "total": total}
        return {name: shown, "pagination": pagination}


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


def inner(value: Any, *names: str) -> Any:
    """The value at a path of nested mappings; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def framed(content: Any) -> bytes:
    """A line of a stream of answers."""
    return json.dumps({"result": content}, separators=(",", ":")).encode() + b"\n"


_MOST_DIGITS = 20

Handler = Callable[[Call], Any] | Callable[[Call], Awaitable[Any]]
"""Answers a call with plain values, which become JSON, or with a `Response`. Plain functions run in a thread;
async ones run in the event loop, for handlers that wait."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, as `/api/v1/trials/{trial}`.

    `action` is what a user must be allowed; None: to read for GET, to change runs for other methods.
    """

    method: str
    path: str
    handler: Handler
    access: Access = Access.USER
    action: Action | None = None

    @property
    def needs(self) -> Action:
        """The action that the roles and scopes of a user must allow."""
        if self.access is Access.OPEN:
            return Action.OPEN
        return self.action or (Action.READ if self.method == "GET" else Action.CONTROL)


def time_of(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC, with microseconds; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Seconds since the epoch of a time, a date or a month in the clients' notation; raises InvalidInput."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-10") else text)
    except ValueError:
        raise InvalidInput(f"{text!r:.60} is no time such as 2026-10-26T23:17:12Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def finite(value: float | None) -> float | None:
    """The value if JSON can represent it."""
    return value if value is not None and isfinite(value) else None
