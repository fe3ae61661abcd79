"""Entities of a fair share in the order of what is held against them: only who changed is scored anew.

What is held against an entity is a part that fades, alike for all, and a part that stays (see `fairness`). So
among those of whom the same stays the order never changes as time goes by: each such class is kept sorted,
and a pass merges the classes as far as it looks. Kept by `PoolState` for lines, by each kind for its lanes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tarmac.sched.policies.order import Key

REMEMBERED = 32_768
"""So many changes are remembered; who has not looked for longer begins anew."""

Score = tuple[float, float]
"""What stays of what is held against an entity, and what fades, as of the beginning of the epoch."""

Member = Any
"""What is ranked for an entity: has `entries`, of which the first tells who goes before an equal."""


class Changes:
    """Whose score, or first run, has changed: a list that every ranking reads as far as it has not yet."""

    __slots__ = ("_dropped", "_entities", "_era")

    def __init__(self) -> None:
        self._era = 0
        self._dropped = 0
        self._entities: list[str] = []

    @property
    def position(self) -> tuple[int, int]:
        """Up to where a ranking has read that has read all."""
        return self._era, self._dropped + len(self._entities)

    def note(self, entity: str) -> None:
        """Something about an entity has changed."""
        self._entities.append(entity)
        if len(self._entities) > 2 * REMEMBERED:
            del self._entities[:REMEMBERED]
            self._dropped += REMEMBERED

    def restart(self) -> None:
        """Everything has changed."""
        self._era += 1
        self._dropped = 0
        self._entities.clear()

    def since(self, position: tuple[int, int]) -> Iterable[str] | None:
        """Who has changed since then; None if that is not remembered."""
        era, read = position
        if era != self._era or read < self._dropped:
            return None
        return dict.fromkeys(self._entities[read - self._dropped :])


class Ranking:
    """Members by entity, in the order of what is held against them; of equals, whose first run goes first."""

    __slots__ = ("_classes", "_places", "_position")

    def __init__(self) -> None:
        self._position = (-1, 0)
        self._classes: dict[float, list[tuple[float, Key, str]]] = {}
        self._places: dict[str, tuple[float, tuple[float, Key, str]]] = {}

    def refresh(self, members: Mapping[str, Member], changes: Changes, score: Callable[[str], Score]) -> None:
        """Bring the order up to date with what has changed since the last time."""
        if self._position == changes.position:
            return
        changed = changes.since(self._position)
        self._position = changes.position
        if changed is None:
            self._classes.clear()
            self._places.clear()
            for entity, member in members.items():
                if member.entries:
                    stays, place = self._place(entity, member, score)
                    self._classes.setdefault(stays, []).append(place)
            for places in self._classes.values():
                places.sort()
            return
        for entity in changed:
            self._drop(entity)
            member = members.get(entity)
            if member is not None and member.entries:
                stays, place = self._place(entity, member, score)
                insort(self._classes.setdefault(stays, []), place)

    def ordered(self, claim: Callable[[str], float]) -> Iterator[tuple[float, Key, str]]:
        """What is held against each entity now, the key of its first run, and its name: the least first."""
        heap = [_head(places, 0, claim) for places in self._classes.values()]
        heapq.heapify(heap)
        while heap:
            held_against, key, entity, index, places = heap[0]
            yield held_against, key, entity
            if index + 1 < len(places):
                heapq.heapreplace(heap, _head(places, index + 1, claim))
            else:
                heapq.heappop(heap)

    def _place(
        self, entity: str, member: Member, score: Callable[[str], Score]
    ) -> tuple[float, tuple[float, Key, str]]:
        stays, fades = score(entity)
        found = self._places[entity] = (stays, (fades, member.entries[0][0], entity))
        return found

    def _drop(self, entity: str) -> None:
        place = self._places.pop(entity, None)
        if place is not None:
            places = self._classes[place[0]]
            del places[bisect_left(places, place[1])]
            if not places:
                del self._classes[place[0]]


def _head(
    places: list[tuple[float, Key, str]], index: int, claim: Callable[[str], float]
) -> tuple[float, Key, str, int, list[tuple[float, Key, str]]]:
    _, key, entity = places[index]
    return claim(entity), key, entity, index, places
