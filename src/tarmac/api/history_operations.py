"""The operations on what a run did: its attempts, history, notes, output, files, and sessions beside it.

Bound by `server.routes`, called by `client`.
"""

from typing import Annotated

from msgspec import Meta, field

from tarmac.api.attempts import Attempt, LogChunk, Notification, Report, WorkFiles
from tarmac.api.operation import BYTES, Body, Count, Operation, Query, Whole
from tarmac.api.placement import Why
from tarmac.model.actor import Action
from tarmac.model.progress import Event
from tarmac.model.run_records import Annotation

SESSION = "application/vnd.tarmac.session"


class NoteBody(Body, frozen=True, kw_only=True):
    """A note to a run."""

    text: str


class FilesQuery(Query, frozen=True, kw_only=True):
    """A path below the working directory of an attempt (the newest) on a node (the first)."""

    path: str = ""
    attempt: Whole | None = None
    node: str | None = None


class FileQuery(FilesQuery, frozen=True, kw_only=True):
    """As for a directory; the bytes begin at `offset`."""

    offset: Whole = 0


class EventsQuery(Query, frozen=True, kw_only=True):
    """Only events after the number `after`."""

    after: Whole = 0


class LogsQuery(Query, frozen=True, kw_only=True):
    """`tail`: only the last lines of each worker, over all attempts. `since`: the text of the last SECONDS.

    `times`: each chunk has text of one time, its `at`. A stream with `follow=false` has the present text,
    then its end.
    """

    role: str | None = None
    replica: Whole | None = None
    worker: Whole | None = None
    rank: Whole | None = None
    attempt: Whole | None = None
    tail: Whole | None = None
    since: Annotated[float, Meta(ge=0)] | None = None
    times: bool = False
    follow: bool = True


class ReportsQuery(Query, frozen=True, kw_only=True):
    """At most `limit` reports, the newest."""

    limit: Count | None = None


class TerminalBody(Body, frozen=True, kw_only=True):
    """The terminal of a command; `name` is the value of TERM."""

    rows: Annotated[int, Meta(ge=1, le=10_000)]
    columns: Annotated[int, Meta(ge=1, le=10_000)]
    name: Annotated[str, Meta(max_length=100)] = ""


class WorkerChoice(Body, frozen=True, kw_only=True):
    """The choice of a worker of a run.

    None means any: the first matching, running worker is taken.
    """

    role: str | None = None
    replica: Whole | None = None
    worker: Whole | None = None
    node: str | None = None


class SessionBody(WorkerChoice, frozen=True, kw_only=True):
    """The frame that opens a session: a command (none: the user's shell), or a port to connect to."""

    command: Annotated[list[str], Meta(max_length=10_000)] = field(default_factory=list)
    stdin: bool = False
    terminal: TerminalBody | None = None
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None


ATTEMPTS = Operation("GET", "/runs/{run}/attempts", Action.READ, list[Attempt])
WHY = Operation("GET", "/runs/{run}/why", Action.READ, Why)
ANNOTATIONS = Operation("GET", "/runs/{run}/annotations", Action.READ, list[Annotation])
NOTE = Operation("POST", "/runs/{run}/notes", Action.CONTROL, list[Annotation], body=NoteBody)
NOTIFICATIONS = Operation("GET", "/runs/{run}/notifications", Action.READ, list[Notification])
FILES = Operation("GET", "/runs/{run}/files", Action.READ, WorkFiles, query=FilesQuery)
FILE = Operation("GET", "/runs/{run}/file", Action.READ, bytes, query=FileQuery, media=BYTES)
EVENTS = Operation("GET", "/runs/{run}/events", Action.READ, list[Event], query=EventsQuery)
LOGS = Operation("GET", "/runs/{run}/logs", Action.READ, list[LogChunk], query=LogsQuery)
REPORTS = Operation("GET", "/runs/{run}/reports", Action.READ, list[Report], query=ReportsQuery)
OPEN_SESSION = Operation("POST", "/runs/{run}/sessions", Action.CONTROL, bytes, media=SESSION, stream=SESSION)
