"""Attempts, history, notes, output and files of runs, sessions beside them, and the operations on these.

Bound by `server.routes`, called by `client`. The facts that stored records share with these answers are
declared once, in `model.progress`.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from tarmac.api.operation import BYTES, Body, Count, Operation, Query, Whole
from tarmac.model import progress
from tarmac.model.actor import Action
from tarmac.model.progress import AttemptProgress, Event, Loss, Notice, WorkerStatus
from tarmac.model.resources import NodeUtilization
from tarmac.model.run_records import Annotation, Delivery


class Notification(Delivery, frozen=True, kw_only=True):
    """A message about a run to one receiver. `receiver` shows only the host of a URL."""

    receiver: str


class WorkerPlacement(progress.WorkerPlacement, frozen=True, kw_only=True):
    """One replica's place; it holds its slots until `released_at` (null: until the attempt ends)."""

    released_at: float | None


class Attempt(AttemptProgress, frozen=True, kw_only=True):
    """One attempt of a run.

    `granted_at`: the time from which it holds its nodes, which have no names before (null: it waits in the
    queue of its cluster). `lost` is null before its end, and if it completed or was stopped. `notices` are
    the newest 100 of each node. `utilization` is that of a live one, on the nodes that have measured it.
    """

    cluster: str
    nodes: tuple[str, ...]
    placements: tuple[WorkerPlacement, ...]
    slot_types: tuple[str, ...]
    granted_at: float | None
    lost: Loss | None
    directory: str | None
    workers: tuple[WorkerStatus, ...]
    notices: tuple[Notice, ...]
    utilization: tuple[NodeUtilization, ...]


class WorkFile(Struct, frozen=True, kw_only=True):
    """An entry of a working directory: `kind` is `file`, `directory`, `link` or `other`."""

    name: str
    kind: str
    bytes: int
    modified_at: float


class WorkFiles(Struct, frozen=True, kw_only=True):
    """A directory of an attempt's files on a node; `more`: it has more entries than listed."""

    attempt: int
    node: str
    path: str
    files: tuple[WorkFile, ...]
    more: bool


class LogSource(progress.Replica, frozen=True, kw_only=True):
    """The worker that writes a log; `rank` is null without a launcher."""

    attempt: int
    worker: int
    rank: int | None
    node: str

    @property
    def name(self) -> str:
        """The log's name in a list of places."""
        return f"{self.attempt}.{self.role}.{self.replica}.{self.worker}"


class LogChunk(LogSource, frozen=True, kw_only=True):
    """Bytes `offset` to `next` of one worker's log, as text; `at`: by when it was written, if requested.

    Bytes that are not UTF-8 are replaced. The setup steps of a node have the role `setup`, with the rank of
    the node as `replica`.
    """

    offset: int
    next: int
    text: str
    at: float | None


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a log, from byte `offset`; `at`: by when it was written, if requested.

    Of a line that was overwritten (a progress bar) only the last state is here.
    """

    offset: int
    text: str
    at: float | None


class LogWindow(LogSource, frozen=True, kw_only=True):
    """Lines of bytes `start` to `next` of one worker's log, which has `length` bytes.

    The last line of a log that still grows begins at `next` until it is complete.
    """

    lines: list[LogLine]
    start: int
    next: int
    length: int


class StreamNotice(Struct, frozen=True, kw_only=True):
    """A message to the user in a stream of logs; `attempt` and `node` are null for one about the stream."""

    text: str
    attempt: int | None = None
    node: str | None = None


class Report(Struct, frozen=True, kw_only=True):
    """Metrics and progress that a worker reported.

    A metric is a number, a text, true, false or null. A number that is not finite is `"nan"`, `"inf"` or
    `"-inf"`.
    """

    at: float
    attempt: int
    node: str
    metrics: dict[str, float | str | bool | None]
    progress: float | None
    step: int | None


SESSION = "application/vnd.tarmac.session"
TEXT = "text/plain; charset=utf-8"


class NoteBody(Body, frozen=True, kw_only=True):
    """A note to a run."""

    text: str


class FilesQuery(Query, frozen=True, kw_only=True):
    """A path below the working directory of an attempt (the newest) on a node (the first)."""

    path: str = ""
    attempt: Whole | None = None
    node: str | None = None


class FileQuery(FilesQuery, frozen=True, kw_only=True):
    """As for a directory; the bytes begin at `offset`. `whole`: up to the end of the file, as a download."""

    offset: Whole = 0
    whole: bool = False


class EventsQuery(Query, frozen=True, kw_only=True):
    """Only events after the number `after`."""

    after: Whole = 0


class LogChoice(Query, frozen=True, kw_only=True):
    """A choice of logs: those of all workers, or of some."""

    role: str | None = None
    replica: Whole | None = None
    worker: Whole | None = None
    rank: Whole | None = None
    attempt: Whole | None = None

    def wants(self, source: LogSource) -> bool:
        """Whether the choice has the log of this worker. A rank restricts only workers that have one."""
        return (
            self.role in (None, source.role)
            and self.replica in (None, source.replica)
            and self.worker in (None, source.worker)
            and (source.rank is None or self.rank in (None, source.rank))
        )


class LogsQuery(LogChoice, frozen=True, kw_only=True):
    """`tail`: only the last lines of each worker, over all attempts. `since`: the text of the last SECONDS.

    `times`: each chunk has text of one time, its `at`. A stream with `follow=false` has the present text,
    then its end.
    """

    tail: Whole | None = None
    since: Annotated[float, Meta(ge=0)] | None = None
    times: bool = False
    follow: bool = True


class LogLinesQuery(LogChoice, frozen=True, kw_only=True):
    """A window of one log: `lines` lines before, after or around (`at`) a byte; by default the last ones.

    `text`, `errors`: only lines with this text (of any case), or that look like errors. `times`: with times.
    """

    before: Whole | None = None
    after: Whole | None = None
    at: Whole | None = None
    lines: Annotated[int, Meta(ge=1, le=1000)] = 100
    text: Annotated[str, Meta(max_length=1000)] = ""
    errors: bool = False
    times: bool = False


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
    """The frame that opens a session: a command (none: the user's shell), or a port to connect to.

    `key`: a new, random name of the session. Its later frames then come in requests of their own: browsers
    cannot write a body while they read the answer.
    """

    command: Annotated[list[str], Meta(max_length=10_000)] = field(default_factory=list)
    stdin: bool = False
    terminal: TerminalBody | None = None
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    key: Annotated[str, Meta(pattern=r"^[\w-]{16,64}$")] | None = None


ATTEMPTS = Operation("GET", "/runs/{run}/attempts", Action.READ, list[Attempt])
ANNOTATIONS = Operation("GET", "/runs/{run}/annotations", Action.READ, list[Annotation])
NOTE = Operation("POST", "/runs/{run}/notes", Action.CONTROL, list[Annotation], body=NoteBody)
NOTIFICATIONS = Operation("GET", "/runs/{run}/notifications", Action.READ, list[Notification])
FILES = Operation("GET", "/runs/{run}/files", Action.READ, WorkFiles, query=FilesQuery)
FILE = Operation("GET", "/runs/{run}/file", Action.READ, bytes, query=FileQuery, media=BYTES)
EVENTS = Operation("GET", "/runs/{run}/events", Action.READ, list[Event], query=EventsQuery)
LOGS = Operation("GET", "/runs/{run}/logs", Action.READ, list[LogChunk], query=LogsQuery)
LOG_LINES = Operation("GET", "/runs/{run}/log-lines", Action.READ, LogWindow, query=LogLinesQuery)
LOG_TEXT = Operation("GET", "/runs/{run}/log-text", Action.READ, bytes, query=LogChoice, media=TEXT)
REPORTS = Operation("GET", "/runs/{run}/reports", Action.READ, list[Report], query=ReportsQuery)
OPEN_SESSION = Operation("POST", "/runs/{run}/sessions", Action.CONTROL, bytes, media=SESSION, stream=SESSION)
WRITE_SESSION = Operation("POST", "/sessions/{session}", Action.CONTROL, bytes, media=SESSION, stream=SESSION)
