"""Answers made of records of the model: fields of the same name are copied. Used by routes and streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

Shape = TypeVar("Shape")


def copy_fields(shape: type[Shape], record: object, **others: object) -> Shape:
    """An answer of this shape: the fields in `others`, and the rest from the attributes of that name.

    The fields stand in the order of the shape.
    """
    empty, names, values = _plan(shape, tuple(others))  # type: ignore[arg-type]  # every class is hashable
    answer: Any = empty.copy()
    answer.update(zip(names, values(record), strict=True), **others)
    return answer  # type: ignore[no-any-return]  # a TypedDict is a dict


def copy_known(shape: type[Shape], record: object | None, **others: object) -> Shape | None:
    """The same, or None where there is no record."""
    return None if record is None else copy_fields(shape, record, **others)


@cache
def _plan(
    shape: type[Any], others: tuple[str, ...]
) -> tuple[dict[str, None], tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """An answer without values, the fields that are copied, and what reads them."""
    empty = dict.fromkeys(shape.__annotations__)
    names = tuple(name for name in empty if name not in others)
    if len(names) < 2 or len(names) + len(others) != len(empty):
        raise TypeError(f"{shape} has not all of {others}, or too little else")
    return empty, names, attrgetter(*names)
