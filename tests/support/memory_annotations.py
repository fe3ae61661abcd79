"""`MemoryAnnotations`: notes and labels as a fake that passes the same suite. Made by `MemoryStore`.

`MemoryAnnouncements`: the same for the announcement, `MemoryReservations` for reservations of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from threading import Lock

from tarmac.model.codec import replace
from tarmac.model.people.announcement import Announcement
from tarmac.model.reservations import ReservedNodes, in_order
from tarmac.model.run import Run
from tarmac.model.run_records import Annotation, LabelChange, changed_labels
from tarmac.store.checks import check_annotation


class MemoryAnnotations:
    """Implements `model.annotation.Annotations` on the runs of a `MemoryStore`, under its lock."""

    def __init__(self, runs: dict[str, Run], lock: Lock) -> None:
        self._runs = runs
        self._lock = lock
        self._found: dict[str, list[Annotation]] = {}

    def of(self, run_id: str) -> list[Annotation]:
        with self._lock:
            return list(self._found.get(run_id, ())) if run_id in self._runs else []

    def add(self, run_id: str, annotation: Annotation) -> bool:
        return bool(self.change_labels({run_id: ({}, annotation)}))

    def change_labels(self, changed: Mapping[str, LabelChange]) -> frozenset[str]:
        for _, annotation in changed.values():
            check_annotation(annotation)
        with self._lock:
            found = frozenset(changed.keys() & self._runs.keys())
            for run_id in found:
                run, (changes, annotation) = self._runs[run_id], changed[run_id]
                labels = changed_labels(run.spec.labels, changes)
                self._runs[run_id] = replace(run, spec=replace(run.spec, labels=labels))
                self._found.setdefault(run_id, []).append(annotation)
            return found


class MemoryAnnouncements:
    """Does in memory what `store.announcements` does."""

    def __init__(self) -> None:
        self._only: Announcement | None = None

    def read(self) -> Announcement | None:
        return self._only

    def replace(self, new: Announcement | None) -> None:
        self._only = new


class MemoryReservations:
    """What `MemoryStore` does for reservations of nodes."""

    _write: AbstractContextManager[object]

    @cached_property
    def _reservations(self) -> dict[str, ReservedNodes]:
        return {}

    def reservations(self) -> list[ReservedNodes]:
        return sorted(self._reservations.values(), key=in_order)

    def put_reservation(self, new: ReservedNodes) -> None:
        with self._write:
            self._reservations[new.name] = new

    def remove_reservation(self, name: str) -> None:
        with self._write:
            self._reservations.pop(name, None)
