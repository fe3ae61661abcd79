"""The attempts of runs and their output, as the API answers. Made in `server.records` and `server.logs`.

The facts that stored records share with these answers are declared once, in `model.progress`.
"""

from msgspec import Struct

from tarmac.model import progress
from tarmac.model.notification import Delivery
from tarmac.model.progress import AttemptProgress, Loss, Notice, WorkerStatus
from tarmac.model.resources import NodeUtilization


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
