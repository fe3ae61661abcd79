"""`AttemptEngine`: the verbs of the port for attempts in directories. Inherited by the engines but `sim`'s.

Each verb exists once, here: it finds the view of the attempt, fences one that was never submitted, holds the
lock and informs the listeners. The inheriting class defines how reports are fetched and how runners leave.
"""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts.host import Host
from tarmac.model.abilities import FileEntry, KeptImage, ReportPiece, StoreFiles
from tarmac.model.errors import NotFound, Refused, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Notice, WorkerStatus
from tarmac.model.resources import NodeUtilization
from tarmac.node.attempt import clearing
from tarmac.node.attempt.protocol import CLEARED_FILE, LONGEST_REPORTS_BYTES
from tarmac.node.files import untrusted
from tarmac.node.session import frames
from tarmac.node.wire.frames import pack_document


class HostFiles(ABC):
    """Three methods of the port `Engine`, `ReadsReports`, `KeepsFiles` and `KeepsImages`.

    `_copies` is the directory of this machine for copies of reports, if it outlives the hosts; `_version`
    that of the programs that are sent to the hosts, "" if none are.
    """

    _views: Views
    _copies: Layout | None = None
    _version: str = ""

    @abstractmethod
    def _reachable(self) -> Mapping[str, Host]:
        """The hosts that can be reached now, by the name of their node; "" for one that stands for all."""

    @abstractmethod
    def _host_with(self, attempt_id: str, path: str) -> Host | None:
        """The host that has this file of an attempt; None without one."""

    # --- the port --------------------------------------------------------------------------------

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        view = self._views.find(attempt_id)
        if view is None:
            return ()
        with view.lock:
            view.refresh()
            return tuple(worker for node in view.nodes if node.is_named for worker in node.workers.values())

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        view = self._views.find(attempt_id)
        if view is None:
            return ()
        with view.lock:
            view.refresh()
            reported = [notice for node in view.nodes for notice in node.notices]
            first = view.nodes[0].name if view.nodes else ""
            return [*reported, *cleared_notices(view.directory, first)]

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        host, directory = self._place_with(attempt_id, path)
        content = host.read(directory, path, offset=offset, limit=limit) if host and directory else None
        if content is None:
            raise NotFound(f"attempt {attempt_id} has no file {path!r}")
        return content

    # --- optional abilities ----------------------------------------------------------------------

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        host, directory = self._place_with(attempt_id, path)
        found = host.files(directory, path, limit=limit) if host and directory else None
        if found is None:
            raise NotFound(f"attempt {attempt_id} has no directory {path!r}")
        return found

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        measured = {}
        for attempt_id in attempt_ids:
            view = self._views.find(attempt_id)
            if view is not None:
                with view.lock:
                    found = [node.utilization() for node in view.nodes if node.is_named and not node.over]
                measured[attempt_id] = [each for each in found if each is not None]
        return {attempt_id: nodes for attempt_id, nodes in measured.items() if nodes}

    def reports(
        self, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
    ) -> Mapping[str, Sequence[ReportPiece]]:
        found = {}
        for attempt_id, known in positions.items():
            view = self._views.find(attempt_id)
            if view is not None and (pieces := list(report_pieces(view, known, limit_bytes))):
                found[attempt_id] = pieces
        return found

    def remains(self) -> Collection[str]:
        found = set(clearing.remains(str(self._copies.runs))) if self._copies is not None else set()
        for host in self._reachable().values():
            found.update(host.remains())
        return found

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        counts = [
            host.clear(run_id, work_days=work_days, log_days=log_days) for host in self._reachable().values()
        ]
        if self._copies is not None:
            clearing.clear(str(self._copies.runs / run_id), work_days=work_days, log_days=log_days)
        return max(counts, default=0)

    def remove(self, run_id: str) -> None:
        for host in self._reachable().values():
            host.remove(run_id)
        if self._copies is not None:
            clearing.remove(str(self._copies.home), run_id)

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        return sum(
            host.clear_copies(live, unused_days=unused_days, version=self._version)
            for host in self._reachable().values()
            if self._version
        )

    def artifact_files(self, system_user: str | None = None) -> StoreFiles | None:  # noqa: ARG002 - one for all
        return None

    def images(self) -> Sequence[KeptImage]:
        return [image for node, host in self._reachable().items() for image in host.images(node)]

    def remove_image(self, image: KeptImage) -> bool:
        return all(
            host.remove_image(image.digest) for node, host in self._reachable().items() if node == image.node
        )

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        return sum(
            host.clear_images(limit_bytes=limit_bytes, unused_days=unused_days)
            for host in self._reachable().values()
        )

    def _place_with(self, attempt_id: str, path: str) -> tuple[Host | None, Path | None]:
        """The host that has this file of an attempt, and the directory of the attempt there."""
        host = self._host_with(attempt_id, path)
        return host, host.layout.attempt(attempt_id) if host is not None else None


ABSENT = Observation(state=ObservedState.ABSENT)


class AttemptEngine(HostFiles):
    """Verbs of the port `Engine`, `Subscribes`, `Reaps` and `OpensSessions`; `seen` has the directories here.

    `others` have the directories of attempts that are read here as well.

    `_leave`, `_end` and `_refresh` are called with the view's lock held.
    """

    def __init__(self, seen: Layout, *others: Layout) -> None:
        self._seen = seen
        self._views = Views(seen, *others)
        self._lock = Lock()
        self._listeners: list[Callable[[str], None]] = []

    @abstractmethod
    def _observe_open(self, views: Mapping[str, AttemptView]) -> Mapping[str, Observation]:
        """The observations of attempts whose end was not observed before; at least one."""

    @abstractmethod
    def _make_directory(self, directory: Path, files: Mapping[str, bytes]) -> bool:
        """Create an attempt's directory, whose path here is given; False if it exists. Raises OSError."""

    @abstractmethod
    def _leave(self, view: AttemptView, request: LeaveRequest) -> bool:
        """Bring a request to the runners; True if none of them can begin any more. Raises Unavailable."""

    @abstractmethod
    def _end(self, view: AttemptView) -> None:
        """End the attempt without its consent, and all that it left. Raises Unavailable."""

    @abstractmethod
    def _open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:
        """A connection to the far end of a session beside a worker with a pid, without the lock."""

    def _withdraw(self, view: AttemptView) -> None:
        """Withdraw what waits for the attempt outside tarmac, without the lock. Raises Unavailable."""

    def _refresh(self, view: AttemptView) -> None:
        view.refresh()

    def _find(self, attempt_id: str) -> AttemptView | None:
        """The view of an attempt; None if it is unknown."""
        return self._views.find(attempt_id)

    def _known(self, attempt_ids: Sequence[str]) -> Mapping[str, AttemptView | None]:
        """The views of attempts by their ids."""
        return {attempt_id: self._views.find(attempt_id) for attempt_id in attempt_ids}

    # --- the port --------------------------------------------------------------------------------

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        found: dict[str, Observation] = {}
        open_views: dict[str, AttemptView] = {}
        for attempt_id, view in self._known(attempt_ids).items():
            if view is None:
                found[attempt_id] = ABSENT
            elif view.final is not None:
                found[attempt_id] = view.final
            else:
                open_views[attempt_id] = view
        return {**found, **self._observe_open(open_views)} if open_views else found

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        view = self._find(attempt_id)
        if view is None and request.ends:
            view = self._fenced(attempt_id, request)
        if view is None:
            return
        with view.lock:
            self._refresh(view)
            if view.nodes and view.over:
                return
            never_begins = self._leave(view, request)
        if never_begins:
            self._withdraw(view)
        self._tell(attempt_id)  # no runner may be left to do so

    # --- optional abilities ----------------------------------------------------------------------

    def subscribe(self, listener: Callable[[str], None]) -> None:
        with self._lock:
            self._listeners.append(listener)

    def reap(self, attempt_id: str) -> None:
        view = self._find(attempt_id) or self._fenced(attempt_id, None)
        if view is None:
            return
        with view.lock:
            self._refresh(view)
            self._end(view)
        self._withdraw(view)
        self._tell(attempt_id)

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        view = self._find(attempt_id)
        if view is None or worker.pid is None:
            raise Refused("the worker has not started")
        near = self._open_session(view, worker)
        try:
            near.sendall(pack_document(frames.WORKER, pid=worker.pid, token=view.token, runs_as=view.runs_as))
        except OSError as error:
            near.close()
            raise Unavailable(f"the session cannot be started: {error}") from None
        return near.detach()

    # --- for the inheriting class ----------------------------------------------------------------

    def _tell(self, attempt_id: str) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(attempt_id)

    def _stage(self, attempt_id: str, directory: Path, files: Mapping[str, bytes]) -> bool:
        """Create an attempt's directory; False if it exists. Raises Unavailable without any change."""
        try:
            return self._make_directory(directory, files)
        except OSError as error:
            message = f"cannot make the directory of attempt {attempt_id}: {error.strerror}"
            raise Unavailable(message, hint=writing.hint(error)) from None

    def _fenced(self, attempt_id: str, request: LeaveRequest | None) -> AttemptView | None:
        """Fence an attempt that was never submitted here; None for an invalid id."""
        directory = self._seen.attempt(attempt_id)
        if directory is None:
            return None
        self._stage(attempt_id, directory, writing.fence_files(attempt_id, request))
        return self._find(attempt_id)


def report_pieces(view: AttemptView, known: Mapping[str, int], limit_bytes: int) -> Iterator[ReportPiece]:
    """The complete lines of each node's file from a position."""
    for node in view.nodes:
        begin = known.get(node.node, 0)
        room = min(limit_bytes, LONGEST_REPORTS_BYTES - begin)
        with suppress(OSError):
            content = untrusted.read_part(node.paths.reports, begin, room) if room > 0 else b""
            if (piece := whole_lines(content, begin)) is not None:
                yield ReportPiece(node=node.node, begin=begin, end=piece[1], content=piece[0])


def whole_lines(content: bytes, begin: int) -> tuple[bytes, int] | None:
    """The complete lines at the beginning of the content, and their end; an overlong line is skipped."""
    lines = content[: content.rfind(b"\n") + 1]
    if lines:
        return lines, begin + len(lines)
    return (b"", begin + len(content)) if len(content) > untrusted.LONGEST_LINE_BYTES else None


_SENTENCES = {
    "work": "its work directories, and what was installed for it, were removed {} after its end",
    "logs": "its logs were removed {} after its end",
}


def cleared_notices(directory: Path, node: str) -> Iterator[Notice]:
    """One notice for each kind of cleared files."""
    path = directory / CLEARED_FILE
    try:
        record, at = untrusted.read_object(str(path)), path.lstat().st_mtime
    except (OSError, ValueError):
        return  # nothing was cleared
    for what, sentence in _SENTENCES.items():
        days = record.get(what)
        if isinstance(days, int | float) and days >= 0:
            yield Notice(at=at, node=node, text=sentence.format("1 day" if days == 1 else f"{days:g} days"))
