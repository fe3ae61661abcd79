"""Tables of runs, as the store in memory answers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any

from tarmac.model.actor import Sight
from tarmac.model.burst.rentals import Rentals
from tarmac.model.cluster import BURST_PREFIX
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.run import Run
from tarmac.model.summary import (
    FACETS,
    Project,
    RunFilter,
    RunSummary,
    RunWindow,
    SavedView,
    summary_of,
)


class MemoryRunViews:
    """Implements `model.summary.RunViews` over the runs of a store, and where each of them ran."""

    def __init__(
        self,
        runs: Mapping[str, Run],
        where: Mapping[str, tuple[str | None, str | None]],
        lock: Lock,
        rentals: Rentals,
    ) -> None:
        self._runs, self._where, self._lock, self._rentals = runs, where, lock, rentals
        self._saved: dict[tuple[str, str], SavedView] = {}

    def _lines(self) -> list[tuple[RunSummary, Mapping[str, str]]]:
        with self._lock:
            return [(self.line(run), run.spec.labels) for run in self._runs.values()]

    def line(self, run: Run) -> RunSummary:
        """The line of a run in a list."""
        found = summary_of(run, *self._where[run.id])
        waits = run.spec.mode is Mode.BURST and run.state is not RunState.ENDED
        rents = waits and (found.cluster or "").startswith(BURST_PREFIX)
        return replace(found, staged=rents and not self._rentals.rentals(run_ids=[run.id]))

    def window(self, window: RunWindow, sight: Sight | None) -> tuple[int, list[RunSummary]]:
        found = [
            line for line, labels in self._lines() if _visible(line, sight) and _passes(line, labels, window)
        ]
        name, falling = window.sort.removeprefix("-"), window.sort.startswith("-")
        with_value = [line for line in found if _value(line, name) is not None]
        without = [line for line in found if _value(line, name) is None]
        ordered = [
            *sorted(with_value, key=lambda line: (_value(line, name), line.id), reverse=falling),
            *sorted(without, key=lambda line: line.id, reverse=falling),
        ]
        return len(found), ordered[window.offset : window.offset + window.limit]

    def lines(self, run_ids: Collection[str], sight: Sight | None) -> list[RunSummary]:
        return [line for line, _ in self._lines() if line.id in run_ids and _visible(line, sight)]

    def counts(self, field: str, chosen: RunFilter, sight: Sight | None) -> dict[str, int]:
        chosen = replace(chosen, **{field: ()})
        values = [
            _value(line, field)
            for line, labels in self._lines()
            if _visible(line, sight) and _passes(line, labels, chosen)
        ]
        return dict(Counter(each for each in values if each is not None))

    def projects(self, sight: Sight | None) -> list[Project]:
        found: dict[str, list[RunSummary]] = {}
        for line, _ in self._lines():
            if _visible(line, sight):
                found.setdefault(line.project, []).append(line)
        projects = [
            Project(
                id=name,
                runs=len(lines),
                live=sum(line.ended_at is None for line in lines),
                newest_at=max(line.created_at for line in lines),
            )
            for name, lines in found.items()
        ]
        return sorted(projects, key=lambda project: project.newest_at, reverse=True)

    def saved(self, user: str) -> list[SavedView]:
        return [view for (of, _), view in sorted(self._saved.items()) if of == user]

    def save(self, user: str, view: SavedView) -> None:
        self._saved[user, view.name] = view

    def forget(self, user: str, name: str) -> None:
        self._saved.pop((user, name), None)


def _visible(line: RunSummary, sight: Sight | None) -> bool:
    return sight is None or sight.covers(line.user, line.project)


def _value(line: RunSummary, name: str) -> Any:
    if name == "status":
        return str(line.outcome if line.state is RunState.ENDED else line.state)
    if name == "kind":
        kind = (line.state, line.outcome or "", line.cause_code or "", line.mode, str(min(line.attempt, 2)))
        kind += (str(int(line.staged)),)
        return " ".join(kind)
    found = getattr(line, name)
    return str(found) if isinstance(found, str) else found


def _passes(line: RunSummary, labels: Mapping[str, str], window: RunFilter) -> bool:
    chosen = {name: getattr(window, name) for name in (*FACETS, "kind")}
    text = window.text or ""
    return (
        all(not values or _value(line, name) in values for name, values in chosen.items())
        and all(
            f"{key}={labels.get(key)}" == pair for pair in window.label for key in [pair.partition("=")[0]]
        )
        and window.array in (None, line.array_id)
        and (not window.id or line.id in window.id)
        and (text.lower() in line.name.lower() or line.id.startswith(text))
    )
