"""Builds answers from records of the model by copying fields of the same name. Used by routes and streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

Shape = TypeVar("Shape")


def copy_fields(shape: type[Shape], record: object, **others: object) -> Shape:
    """An answer of this class: fields from `others`, the rest from the attributes with the same name.

    The fields are in the order of the class.
    """
    empty, names, values = _plan(shape, tuple(others))  # type: ignore[arg-type]  # every class is hashable
    answer: Any = empty.copy()
    answer.update(zip(names, values(record), strict=True), **others)
    return answer  # type: ignore[no-any-return]  # a TypedDict is a dict


def copy_known(shape: type[Shape], record: object | None, **others: object) -> Shape | None:
    """The answer as by `copy_fields`, or None if there is no record."""
    return None if record is None else copy_fields(shape, record, **others)


@cache
def _plan(
    shape: type[Any], others: tuple[str, ...]
) -> tuple[dict[str, None], tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """An answer without values, the copied fields, and a function that reads them."""
    empty = dict.fromkeys(shape.__annotations__)
    names = tuple(name for name in empty if name not in others)
    if len(names) < 2 or len(names) + len(others) != len(empty):
        raise TypeError(f"{shape} has not all of {others}, or too little else")
    return empty, names, attrgetter(*names)
