"""Entities of a fair share in the order of their usage; only changed entities are ranked again.

The usage of an entity has a part that fades, alike for all, and a part that stays (see `fairness`). Among
entities with an equal staying part, time never changes the order: each such class stays sorted, and a cycle
merges the classes as far as needed. Used by `pool_state` for mode queues, class queues and holdings.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

REMEMBERED = 32_768
"""The number of remembered changes; a ranking that has missed more starts again."""

Place = tuple[Any, ...]
"""The place of an item in its class: the fading part of its usage, then a unique key."""

Placed = tuple[Hashable, Place]
"""A class, which is of one staying part, and a place in it."""

Least = Callable[[Any, Place], float]
"""The least value that a place of a class can have."""

Places = Callable[[str], Sequence[Placed]]
"""The places of an entity's items; empty if it has none."""


class Changes:
    """The changed entities: a list that every ranking reads from its own position."""

    __slots__ = ("_changed", "_dropped", "_entities", "_read", "era")

    def __init__(self) -> None:
        self.era = 0
        self._dropped = 0
        self._entities: list[str] = []
        self._read: object = None
        self._changed: dict[str, None] = {}

    @property
    def position(self) -> tuple[int, int]:
        """The position of a ranking that has read everything."""
        return self.era, self._dropped + len(self._entities)

    def note(self, entity: str) -> None:
        """Note a change of an entity."""
        self._entities.append(entity)
        if len(self._entities) > 2 * REMEMBERED:
            del self._entities[:REMEMBERED]
            self._dropped += REMEMBERED

    def restart(self) -> None:
        """Note that everything has changed."""
        self.era += 1
        self._dropped = 0
        self._entities.clear()

    def since(self, position: tuple[int, int], most: int) -> Collection[str] | None:
        """The entities that changed since `position`; None if more than `most` times, or not remembered."""
        era, read = position
        if era != self.era or read < self._dropped or self._dropped + len(self._entities) - read > most:
            return None
        read_from = (position, self.position)
        if read_from != self._read:  # many rankings have read as far
            self._read, self._changed = read_from, dict.fromkeys(self._entities[read - self._dropped :])
        return self._changed


class Ranking:
    """The items of entities, in sorted `classes`; `placed` has the places of each entity that has items."""

    __slots__ = ("_position", "classes", "placed")

    def __init__(self) -> None:
        self._position = (-1, 0)
        self.classes: dict[Hashable, list[Place]] = {}
        self.placed: dict[str, Sequence[Placed]] = {}

    def refresh(self, entities: Collection[str], changes: Changes, places: Places) -> None:
        """Apply the changes since the last refresh."""
        if self._position == changes.position:
            return
        changed = changes.since(self._position, len(self.placed))
        self._position = changes.position
        if changed is None:
            self._begin(entities, places)
            return
        placed = self.placed
        for entity in changed:
            if entity not in placed and entity not in entities:
                continue
            for key, place in placed.pop(entity, ()):
                self._cut(key, place)
            found = places(entity)
            if found:
                placed[entity] = found
            for key, place in found:
                insort(self.classes.setdefault(key, []), place)

    def ordered(self, value: Callable[[Place], float], least: Least) -> Iterator[tuple[float, Place]]:
        """All items with their values, the least first; the values must keep the order of a class.

        `least` computes quickly what a value is at least: so the values of few items are computed.
        """
        heap: list[tuple[float, Place, int, Hashable]] = [
            (least(key, places[0]), (), 0, key) for key, places in self.classes.items()
        ]
        heapq.heapify(heap)
        while heap:
            found, known, index, key = heap[0]
            places = self.classes[key]
            if not known:
                heapq.heapreplace(heap, (value(places[index]), places[index][1:], index, key))
                continue
            yield found, places[index]
            if index + 1 < len(places):
                heapq.heapreplace(heap, (least(key, places[index + 1]), (), index + 1, key))
            else:
                heapq.heappop(heap)

    def _begin(self, entities: Iterable[str], places: Places) -> None:
        self.classes = {}
        self.placed = {entity: found for entity in entities if (found := places(entity))}
        for placed in self.placed.values():
            for key, place in placed:
                self.classes.setdefault(key, []).append(place)
        for together in self.classes.values():
            together.sort()

    def _cut(self, key: Hashable, place: Place) -> None:
        together = self.classes[key]
        del together[bisect_left(together, place)]
        if not together:
            del self.classes[key]
