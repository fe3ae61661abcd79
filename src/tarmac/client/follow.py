"""Follows a run: streams that resume after a break, even across a server that died or was restarted.

Called by the client's iterators. A cursor remembers the messages passed on, and the next connection requests
the following ones, so that none is lost or repeated.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from tarmac import api
from tarmac.client.calls import decoded, query_text
from tarmac.client.transport import Transport
from tarmac.model.errors import Unavailable
from tarmac.model.progress import Event


class Message(NamedTuple):
    """One message of a stream. `event` is `log`, `state`, `notice` or `end` for the logs of a run.

    `data` is its record: a `LogChunk`, `RunStatus`, `StreamNotice`, `Event`, or, at the end, the `Run`. `id`,
    if any, resumes the stream behind it.
    """

    event: str
    data: Any
    id: str | None = None


def messages(pieces: Iterable[bytes]) -> Iterator[Message]:
    """The messages in the pieces of a stream, without comments and without an unfinished message."""
    rest = b""
    for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            if message := _message(block):
                yield message


def _message(block: bytes) -> Message | None:
    fields: dict[str, str] = {}
    for line in block.decode().split("\n"):
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    event = fields.get("event", "message")
    return Message(event, decoded(_records().get(event, Any), fields["data"]), fields.get("id"))


@cache
def _records() -> Mapping[str, Any]:
    """The record that a message of each event has; commands that follow no run do not load them."""
    return {
        "log": api.LogChunk,
        "state": api.RunStatus,
        "notice": api.StreamNotice,
        "stopping": api.StreamNotice,
        "event": Event,
        "end": api.Run,
    }


PATIENCE_S = 60.0
"""How long a follower tries to reconnect to a server before it gives up."""

_PAUSE_S = 0.1

Query = Mapping[str, str | int | float]


class EventCursor:
    """A follower's position in the history of a run: the number of the last event.

    `position` resumes the stream; `take` remembers a message and returns whether it is new.
    """

    def __init__(self, reference: str, *, after: int = 0) -> None:
        self._reference = reference
        self._seq = after

    def position(self) -> tuple[str, Mapping[str, str]]:
        """The path and the headers of the next request."""
        return f"/runs/{self._reference}/events", {"Last-Event-ID": str(self._seq)}

    def take(self, message: Message) -> bool:
        if message.event == "event":
            self._reference = message.data.run_id  # the name may later refer to another run
            self._seq = message.data.seq
        return True


class LogCursor:
    """A follower's position in a run's logs: the next offset of each, the last state, the notices passed on.

    `position` and `take` as for `EventCursor`.
    """

    def __init__(self, reference: str, query: Query) -> None:
        self._reference = reference
        self._query = f"?{query_text(query)}" if query else ""
        self._next: dict[str, int] = {}
        self._state: Any = None
        self._notices: set[api.StreamNotice] = set()

    def position(self) -> tuple[str, Mapping[str, str]]:
        offsets = ",".join(f"{name}:{offset}" for name, offset in self._next.items())
        headers = {"Last-Event-ID": offsets} if offsets else {}
        return f"/runs/{self._reference}/logs{self._query}", headers

    def take(self, message: Message) -> bool:
        data = message.data
        if message.event == "log":
            self._next[data.name] = data.next
        elif message.event == "state":
            self._reference = data.id  # the name may later refer to another run
            known, self._state = self._state, data
            return bool(data != known)
        elif message.event == "notice":
            known_before = data in self._notices
            self._notices.add(data)
            return not known_before
        return True


def follow(
    transport: Transport, cursor: EventCursor | LogCursor, *, deadline: float | None = None
) -> Iterator[Message]:
    """The messages of a stream up to its `end`, across breaks, each reported in a `notice`.

    Reconnecting restarts a server that died, but not one that was stopped on purpose: then another one must
    appear. Raises Unavailable if none does within `PATIENCE_S`, and returns without an `end` at `deadline` (a
    reading of `time.monotonic`).
    """
    stopped = False
    broken_since: float | None = None
    while True:
        path, headers = cursor.position()
        last_problem: Exception | None = None
        try:
            with transport.stream(path, headers=headers, start=not stopped, deadline=deadline) as pieces:
                for message in messages(pieces):
                    broken_since = None
                    if message.event == "stopping":
                        stopped = True
                        continue
                    if cursor.take(message):
                        yield message
                    if message.event == "end":
                        return
        except (OSError, Unavailable) as problem:
            last_problem = problem
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return
        if broken_since is None:
            broken_since = now
            text = "the server broke off; the run goes on. Connecting again"
            if stopped:
                text = "the server was stopped; the run goes on. Waiting for a server to follow it further"
            yield Message("notice", api.StreamNotice(text=text))
        elif now - broken_since > PATIENCE_S:
            what = "no server has come back" if stopped else "the server cannot be reached"
            raise Unavailable(
                f"{what} for {PATIENCE_S:.0f} s; the run goes on", hint="tarmac logs -f follows it again"
            ) from last_problem
        time.sleep(_PAUSE_S)
