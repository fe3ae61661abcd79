"""Holdings under a fair share, grouped: as much is held against all in a group. Kept by `holders`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

from tarmac.sched.policies.ranking import Ranking

Group = tuple[str, int]
"""An entity, and how many slots a holding of it has."""


class Groups:
    """Holdings by whose share they count for and how many slots they have; each group is sorted.

    `ranking` orders the groups by what is held against them; `changed` is told of whom one came or went.
    """

    __slots__ = ("_by_entity", "_changed", "ranking")

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._by_entity: dict[str, dict[int, list[Any]]] = {}
        self.ranking = Ranking()

    @property
    def entities(self) -> Iterable[str]:
        """Whose holdings there are."""
        return self._by_entity

    def of(self, entity: str) -> Iterable[int]:
        """The widths of an entity's groups."""
        return self._by_entity.get(entity, {})

    def __getitem__(self, group: Group) -> list[Any]:
        """The entries of a group."""
        return self._by_entity[group[0]][group[1]]

    def add(self, group: Group, entry: tuple[Any, ...]) -> None:
        """Sort an entry into its group."""
        entity, slots = group
        widths = self._by_entity.setdefault(entity, {})
        if slots not in widths:
            widths[slots] = []
            self._changed(entity)
        insort(widths[slots], entry)

    def cut(self, group: Group, key: tuple[Any, ...]) -> None:
        """Take the entry with this key out of its group."""
        entity, slots = group
        widths = self._by_entity[entity]
        del widths[slots][bisect_left(widths[slots], key)]
        if not widths[slots]:
            del widths[slots]
            self._changed(entity)
        if not widths:
            del self._by_entity[entity]
