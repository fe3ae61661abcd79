"""Entities of a fair share in the order of what is held against them: only who changed is placed anew.

What is held against an entity is a part that fades, alike for all, and a part that stays (see `fairness`). So
among those of whom the same stays the order never changes as time goes by: each such class is kept sorted,
and a cycle merges the classes as far as it looks. Used by `fair_order` for mode queues, class queues and
holdings.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

REMEMBERED = 32_768
"""So many changes are remembered; who has not looked for longer begins anew."""

Place = tuple[Any, ...]
"""Where something lies in its class: what fades of what is held against it, then what no two have alike."""

Placed = tuple[Hashable, Place]
"""A class, of which all have in common whatever does not fade, and a place in it."""

Places = Callable[[str], Sequence[Placed]]
"""Where what counts for an entity lies; empty if nothing does."""


class Changes:
    """Of whom something has changed: a list that every ranking reads as far as it has not yet."""

    __slots__ = ("_dropped", "_entities", "era")

    def __init__(self) -> None:
        self.era = 0
        self._dropped = 0
        self._entities: list[str] = []

    @property
    def position(self) -> tuple[int, int]:
        """Up to where a ranking has read that has read all."""
        return self.era, self._dropped + len(self._entities)

    def note(self, entity: str) -> None:
        """Something about an entity has changed."""
        self._entities.append(entity)
        if len(self._entities) > 2 * REMEMBERED:
            del self._entities[:REMEMBERED]
            self._dropped += REMEMBERED

    def restart(self) -> None:
        """Everything has changed."""
        self.era += 1
        self._dropped = 0
        self._entities.clear()

    def since(self, position: tuple[int, int]) -> Iterable[str] | None:
        """Who has changed since then; None if that is not remembered."""
        era, read = position
        if era != self.era or read < self._dropped:
            return None
        return dict.fromkeys(self._entities[read - self._dropped :])


class Ranking:
    """What counts for entities, by classes."""

    __slots__ = ("_classes", "_placed", "_position")

    def __init__(self) -> None:
        self._position = (-1, 0)
        self._classes: dict[Hashable, list[Place]] = {}
        self._placed: dict[str, Sequence[Placed]] = {}

    @property
    def classes(self) -> Iterable[list[Place]]:
        """The classes, each in order."""
        return self._classes.values()

    def placed(self, entity: str) -> Sequence[Placed]:
        """Where what counts for an entity lies."""
        return self._placed.get(entity, ())

    def refresh(self, entities: Iterable[str], changes: Changes, places: Places) -> None:
        """Bring the order up to date with what has changed since the last time."""
        if self._position == changes.position:
            return
        changed = changes.since(self._position)
        self._position = changes.position
        if changed is None:
            self._begin(entities, places)
            return
        for entity in changed:
            for key, place in self._placed.pop(entity, ()):
                self._cut(key, place)
            found = places(entity)
            if found:
                self._placed[entity] = found
            for key, place in found:
                insort(self._classes.setdefault(key, []), place)

    def ordered(self, value: Callable[[Place], float]) -> Iterator[tuple[float, Place]]:
        """Everything with its value now, which keeps the order of a class: the least first."""
        heap = [_head(places, 0, value) for places in self._classes.values()]
        heapq.heapify(heap)
        while heap:
            least, _, index, places = heap[0]
            yield least, places[index]
            if index + 1 < len(places):
                heapq.heapreplace(heap, _head(places, index + 1, value))
            else:
                heapq.heappop(heap)

    def _begin(self, entities: Iterable[str], places: Places) -> None:
        self._classes = {}
        self._placed = {entity: found for entity in entities if (found := places(entity))}
        for placed in self._placed.values():
            for key, place in placed:
                self._classes.setdefault(key, []).append(place)
        for together in self._classes.values():
            together.sort()

    def _cut(self, key: Hashable, place: Place) -> None:
        together = self._classes[key]
        del together[bisect_left(together, place)]
        if not together:
            del self._classes[key]


def _head(
    places: list[Place], index: int, value: Callable[[Place], float]
) -> tuple[float, Place, int, list[Place]]:
    place = places[index]
    return value(place), place[1:], index, places
