"""What MCLI's fields may hold, read as forgivingly as its server did: quoted numbers, any case of true.

Used by the readers of this package.
"""

from __future__ import annotations

import re

from tarmac.dialects.kinds import Kind, Misfit, text
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.section import Value

_TRUTHS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)


def truth() -> Kind[bool]:
    """True or false in any spelling, also in quotes: `ssh_clone: 'False'` is seen in the wild."""

    def read(scalar: Scalar) -> bool:
        if scalar.text.lower() not in _TRUTHS:
            raise Misfit()
        return _TRUTHS[scalar.text.lower()]

    return Kind("true or false", read)


def whole(minimum: int, maximum: int) -> Kind[int]:
    """A whole number, also in quotes."""

    def read(scalar: Scalar) -> int:
        if not _WHOLE.fullmatch(scalar.text) or not minimum <= int(scalar.text) <= maximum:
            raise Misfit()
        return int(scalar.text)

    return Kind(f"a whole number from {minimum} to {maximum}", read)


def hours_s() -> Kind[float]:
    """A number of hours, in seconds."""

    def read(scalar: Scalar) -> float:
        unit = re.fullmatch(r"([0-9.]+) ?(h|hours?|m|min|d|days?|s)", scalar.text, re.ASCII)
        if unit:
            raise Misfit(
                f"it counts hours, without a unit: {unit[1]}" if unit[2][0] == "h" else "it counts hours"
            )
        if not _NUMBER.fullmatch(scalar.text):
            raise Misfit()
        seconds = float(scalar.text) * 3600
        if not 1 <= seconds <= 3650 * 86400:
            raise Misfit("at least a second, and at most ten years")
        return seconds

    return Kind("a number of hours such as 24 or 0.5", read)


def words(wanted: str) -> Kind[str]:
    """One line of text that is not empty."""
    inner = text(wanted)

    def read(scalar: Scalar) -> str:
        found = inner.read(scalar).strip()
        if not found or not found.isprintable():
            raise Misfit("it is empty" if not found else "it must be one line without control characters")
        return found

    return Kind(wanted, read)


def read_word(value: Value | None, wanted: str = "a text") -> str | None:
    """A text of one line, or None where it is not given or wrong."""
    if value is None:
        return None
    if not isinstance(value.node, Scalar):
        value.expected(wanted)
        return None
    return value.read(words(wanted), None)


def read_words(value: Value, wanted: str) -> tuple[str, ...]:
    """A list of texts, or one alone."""
    if isinstance(value.node, Scalar):
        found = value.read(words(wanted), None)
        return () if found is None else (found,)
    if isinstance(value.node, Items) and not value.node.items:
        return ()
    read = [item.read(words("a text"), None) for item in value.items(wanted)]
    return tuple(item for item in read if item is not None)
