"""Holdings under a fair share in groups of equal usage. Kept by `holders`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

from tarmac.sched.policies.ranking import Ranking

Group = tuple[str, int]
"""An entity, and the number of slots of a holding."""


class Groups:
    """Holdings by the entity they count for and their number of slots; each group is sorted.

    `ranking` orders the groups by their usage. The groups call `changed` with an entity when one of its
    groups comes or goes.
    """

    __slots__ = ("_by_entity", "_changed", "ranking")

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._by_entity: dict[str, dict[int, list[Any]]] = {}
        self.ranking = Ranking()

    @property
    def entities(self) -> Iterable[str]:
        """The entities that have holdings."""
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
        """Remove the entry with this key from its group."""
        entity, slots = group
        widths = self._by_entity[entity]
        del widths[slots][bisect_left(widths[slots], key)]
        if not widths[slots]:
            del widths[slots]
            self._changed(entity)
        if not widths:
            del self._by_entity[entity]
