"""A frozen record with some fields changed, quickly. For records that change at every step of every run.

The same as `dataclasses.replace` for slotted records without a `__post_init__`, in a third of its time: a
server and a simulation make a dozen such copies for each run, and a simulation plays 100,000 runs.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace as changed
else:

    def changed(record, /, **changes):
        """The record with these fields changed."""
        kind = type(record)
        names, values_of = _fields(kind)
        copy = object.__new__(kind)
        write = object.__setattr__  # as the `__init__` of a frozen record does
        deque(map(write, repeat(copy), names, values_of(record)), maxlen=0)
        for name, value in changes.items():
            write(copy, name, value)
        return copy


@cache
def _fields(kind: type) -> tuple[tuple[str, ...], Any]:
    """The names of a record's fields, and what reads them all."""
    names: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    assert len(names) > 1, kind
    assert not hasattr(kind, "__post_init__"), kind
    return names, attrgetter(*names)


__all__ = ["changed"]
