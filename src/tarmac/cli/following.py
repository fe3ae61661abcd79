"""Follows a run to its end: shows the server's messages in a view. Called by `run`, `logs -f` and others.

The client's stream survives a server that dies; this module adds information for people: the expected workers
(one or several), their nodes, and `news` during silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.followview import SharedView, View
from tarmac.cli.views.messages import Json
from tarmac.cli.views.news import News
from tarmac.cli.views.sharing import state_detail
from tarmac.model.resources import DEFAULT_ROLE

if TYPE_CHECKING:
    from tarmac.client import Client

_PLACED = frozenset({"running", "pausing", "preempting", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """A selection of a run's logs; None means all."""

    role: str | None = None
    replica: int | None = None
    worker: int | None = None
    rank: int | None = None
    attempt: int | None = None
    tail: int | None = None
    since_s: float | None = None
    times: bool = False

    def arguments(self) -> dict[str, Any]:
        """Arguments for the client's `logs` and `follow`."""
        return {name: getattr(self, name) for name in self.__slots__}


def follow(client: Client, run_id: str, view: View, choice: LogChoice) -> int:
    """Show a run until it ends and return its exit code; Ctrl-C leaves it running and returns 130."""
    shared = SharedView(view)
    places = _Places(client, run_id, choice)
    news = News(client, run_id, shared)
    news.start()
    try:
        for message in client.follow(run_id, **choice.arguments()):
            data = message.data
            if message.event == "end":
                news.stop()
                with shared.locked() as shown:
                    shown.end(data)
                return int(data["exit_status"] or 0)
            if message.event == "log":
                news.note_output()
            elif message.event == "state":
                news.note_state(data["state"])
            _show(message.event, data, shared, places)
    except KeyboardInterrupt:
        with shared.locked() as shown:
            shown.detached(run_id)
        return INTERRUPTED
    finally:
        news.stop()
    return 0


def expected_workers(run: Json, attempt: Json, choice: LogChoice) -> Iterator[dict[str, Any]]:
    """The selected workers of an attempt, known from its placements before any of them has started."""
    roles = {role.get("name", DEFAULT_ROLE): role for role in run["spec"]["roles"]}
    for placement in attempt["placements"]:
        if choice.role not in (None, placement["role"]) or choice.replica not in (None, placement["replica"]):
            continue
        role = roles.get(placement["role"])
        if choice.rank is not None and role is not None and role.get("launcher") is not None:
            continue  # only one of them writes this log
        for index in range(_workers(role, placement) if role is not None else 1):
            if choice.worker in (None, index):
                yield {"role": placement["role"], "replica": placement["replica"], "index": index}


def _workers(role: Json, placement: Json) -> int:
    """The number of workers of a replica: with a launcher, one for each of its slots."""
    return len(role["processes"]) if role.get("launcher") is None else max(1, len(placement["slots"]))


def _show(event: str, data: Json, shared: SharedView, places: _Places) -> None:
    if event == "log":
        workers, _ = places.of(data["attempt"])
        with shared.locked() as view:
            view.expect(workers)
            view.log(data)
    elif event == "state":
        workers, nodes = places.of(data["attempt"]) if data["state"] in _PLACED else ((), ())
        detail = places.state_detail(data)
        with shared.locked() as view:
            view.expect(workers)
            view.state(data, nodes, detail)
    elif event == "notice":
        with shared.locked() as view:
            view.notice(data)


class _Places:
    """Workers and nodes of each attempt, read once."""

    def __init__(self, client: Client, run_id: str, choice: LogChoice) -> None:
        self._client = client
        self._run_id = run_id
        self._choice = choice
        self._known: dict[int, tuple[tuple[Json, ...], tuple[str, ...]]] = {}

    def state_detail(self, summary: Json) -> str:
        """The detail text of a new state."""
        return state_detail(self._client, summary)

    def of(self, number: int) -> tuple[tuple[Json, ...], tuple[str, ...]]:
        """The nodes of attempt `number`, and, on the first call for it, its expected workers."""
        if number in self._known:
            return (), self._known[number][1]
        run = self._client.run(self._run_id)
        for attempt in self._client.attempts(self._run_id):
            workers = tuple(expected_workers(run, attempt, self._choice))
            self._known.setdefault(attempt["number"], (workers, tuple(attempt["nodes"])))
        return self._known.setdefault(number, ((), ()))
