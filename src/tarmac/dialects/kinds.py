"""What a field may hold: each kind says in words what it wants, and reads a scalar or refuses it.

Used by every reader of `dialects` through `dialects.section`, which turns a refusal into a located problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from tarmac.dialects.located import Scalar
from tarmac.dialects.problems import nearest

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

LARGEST_TEXT_BYTES = 100 * 1024
"""The longest command, argument or variable: the kernel takes at most 128 KiB in one string."""


class Misfit(Exception):
    """The scalar is not of the kind; `hint` may say how to put it right."""

    def __init__(self, hint: str | None = None) -> None:
        super().__init__(hint or "")
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """`wanted` completes "... is expected, not X"; `read` returns the value or raises Misfit."""

    wanted: str
    read: Callable[[Scalar], T]


def integer(minimum: int, maximum: int) -> Kind[int]:
    """A whole number within bounds."""

    def read(scalar: Scalar) -> int:
        if not _INTEGER.fullmatch(scalar.text):
            raise Misfit()
        if scalar.quoted:
            raise Misfit("take the quotes away")
        # Length first: Python refuses to convert absurdly long digit strings.
        if len(scalar.text) > 18 or not minimum <= int(scalar.text) <= maximum:
            raise Misfit()
        return int(scalar.text)

    return Kind(f"a whole number from {minimum} to {maximum}", read)


def number(minimum: float, maximum: float) -> Kind[float]:
    """A number, with or without a fraction, within bounds."""

    def read(scalar: Scalar) -> float:
        if scalar.quoted or not _NUMBER.fullmatch(scalar.text) or len(scalar.text) > 18:
            raise Misfit("take the quotes away" if scalar.quoted else None)
        if not minimum <= float(scalar.text) <= maximum:
            raise Misfit()
        return float(scalar.text)

    return Kind(f"a number from {minimum:g} to {maximum:g}", read)


def choice(kind: type[E]) -> Kind[E]:
    """One of the words of an enumeration."""
    words = [str(item) for item in kind]

    def read(scalar: Scalar) -> E:
        if scalar.text not in words:
            meant = nearest(scalar.text, words)
            raise Misfit(f"did you mean '{meant}'?" if meant else None)
        return kind(scalar.text)

    return Kind(f"one of {', '.join(words)}", read)


def positive(maximum: float) -> Kind[float]:
    """A number above zero, with or without a fraction."""
    wanted = f"a number above 0, at most {maximum:g}"
    bounded = number(0, maximum)

    def read(scalar: Scalar) -> float:
        value = bounded.read(scalar)
        if value == 0:
            raise Misfit()
        return value

    return Kind(wanted, read)


def flag() -> Kind[bool]:
    """`true` or `false`."""

    def read(scalar: Scalar) -> bool:
        if scalar.quoted or scalar.text not in ("true", "false"):
            raise Misfit(_FLAG_HINTS.get(scalar.text.lower()))
        return scalar.text == "true"

    return Kind("true or false", read)


def text(wanted: str = "a text") -> Kind[str]:
    """Any text that fits into one argument or variable of a process."""

    def read(scalar: Scalar) -> str:
        size = len(scalar.text.encode())
        if size > LARGEST_TEXT_BYTES:
            raise Misfit(f"it has {size:,} bytes and {LARGEST_TEXT_BYTES:,} are allowed: put it into a file")
        return scalar.text

    return Kind(wanted, read)


def matching(pattern: str, wanted: str) -> Kind[str]:
    """A text of which the whole matches a pattern; the hint is the same with dashes for what does not fit."""
    compiled = re.compile(pattern, re.ASCII)

    def read(scalar: Scalar) -> str:
        if compiled.fullmatch(scalar.text):
            return scalar.text
        repaired = re.sub(r"[^A-Za-z0-9._-]+", "-", scalar.text, flags=re.ASCII).strip("-._")
        raise Misfit(f"{repaired!r} would do" if compiled.fullmatch(repaired) else None)

    return Kind(wanted, read)


_FLAG_HINTS = {
    **dict.fromkeys(("yes", "on", "true", "1"), "write true"),
    **dict.fromkeys(("no", "off", "false", "0"), "write false"),
}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
