"""The store in memory with a call before and after each durable write: a test may crash there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from memory_metrics import MemoryMetrics
from memory_store import MemoryStore
from tarmac.model.actor import Lease
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.metrics import ReportBatch
from tarmac.model.run import Run

T = TypeVar("T")


class InterruptibleMetrics(MemoryMetrics):
    """The metrics of an `InterruptibleStore`."""

    def __init__(self, *parts: Any, interrupted: Callable[[Callable[[], list[bool]]], list[bool]]) -> None:
        super().__init__(*parts)
        self._interrupted = interrupted

    def take(self, batches: Sequence[ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        return self._interrupted(
            lambda: super(InterruptibleMetrics, self).take(batches, lease=lease) if batches else []
        )


class InterruptibleRecords:
    """A part of the in-memory store, with a call before and after each of these writes."""

    def __init__(
        self, kept: Any, interrupted: Callable[[Callable[[], Any]], Any], writes: Collection[str]
    ) -> None:
        self._kept = kept
        self._interrupted = interrupted
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._kept, name)
        if name not in self._writes:
            return method

        def written(*values: Any, **named: Any) -> Any:
            if values and values[0] == []:  # nothing is written
                return method(*values, **named)
            return self._interrupted(lambda: method(*values, **named))

        return written


class InterruptibleStore(MemoryStore):
    """The in-memory store with a call before and after each durable write: a test may crash there."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupt: Callable[[], None] = lambda: None
        self.metrics = InterruptibleMetrics(
            self._runs, self._write, self._fence, self.run_records.keep, interrupted=self._interrupted
        )
        self.experiments: Any = InterruptibleRecords(
            self.experiments, self._interrupted, ("create", "apply", "remove")
        )
        self.rentals: Any = InterruptibleRecords(self.rentals, self._interrupted, ("apply", "put_stock"))
        self.limits: Any = InterruptibleRecords(self.limits, self._interrupted, ("add",))

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        return self._interrupted(lambda: super(InterruptibleStore, self).create_runs(new))

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        return self._interrupted(
            lambda: super(InterruptibleStore, self).apply(steps, lease=lease, whole=whole)
        )

    def put_cluster(self, cluster: Cluster) -> None:
        self._interrupted(lambda: super(InterruptibleStore, self).put_cluster(cluster))

    def remove_cluster(self, name: str) -> None:
        self._interrupted(lambda: super(InterruptibleStore, self).remove_cluster(name))

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        self._interrupted(lambda: super(InterruptibleStore, self).set_drained(nodes, drain))

    def _interrupted(self, write: Callable[[], T]) -> T:
        self.interrupt()
        result = write()
        self.interrupt()
        return result
