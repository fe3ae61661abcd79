"""Files, logs, reports and images of attempts on the hosts of an engine. Inherited by all but `sim`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.reports import cleared_notices, read_reports
from tarmac.engines.attempts.view import Views
from tarmac.engines.hosts.host import Host
from tarmac.model.abilities import FileEntry, KeptImage, ReportPiece, StoreFiles
from tarmac.model.errors import NotFound
from tarmac.model.progress import Notice, WorkerStatus
from tarmac.model.utilization import NodeUtilization
from tarmac.node.attempt import clearing


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
        host = self._host_with(attempt_id, path)
        directory = host.layout.attempt(attempt_id) if host is not None else None
        content = None
        if host is not None and directory is not None:
            content = host.read(directory, path, offset=offset, limit=limit)
        if content is None:
            raise NotFound(f"attempt {attempt_id} has no file {path!r}")
        return content

    # --- optional abilities ----------------------------------------------------------------------

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        host = self._host_with(attempt_id, path)
        directory = host.layout.attempt(attempt_id) if host is not None else None
        found = None
        if host is not None and directory is not None:
            found = host.files(directory, path, limit=limit)
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
        return read_reports(self._views, positions, limit_bytes=limit_bytes)

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

    def artifact_files(self) -> StoreFiles | None:
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
