"""Kinds of field values: each kind describes its values, and reads a scalar or refuses it.

Used by every reader of `dialects` through `dialects.section`, which turns a refusal into a located problem.
The value of a bare word depends on the dialect: `strict` for run files, `lenient` and `yaml12` for other
systems.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from tarmac.dialects.located import Scalar
from tarmac.model.errors import nearest

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

LARGEST_TEXT_BYTES = 100 * 1024
"""Maximum size of a command, argument or variable: the kernel takes at most 128 KiB in one string."""

LARGEST_NUMBER = 1e300


class Misfit(Exception):
    """The scalar is not of the kind; `hint` may say how to correct it."""

    def __init__(self, hint: str | None = None) -> None:
        super().__init__(hint or "")
        self.hint = hint


def plain(value: Any) -> Any:
    """JSON values in plain containers, which the YAML library knows."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def written_number(value: float) -> int | float:
    """The number without a fraction if it is whole."""
    return int(value) if float(value).is_integer() else value


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """`description` completes "... is expected, not X"; `read` returns the value or raises Misfit.

    Messages never quote the value of a `secret` kind. `write` is the inverse of `read`: JSON.
    """

    description: str
    read: Callable[[Scalar], T]
    secret: bool = False
    write: Callable[[Any], Any] = plain


# --- values of bare words

Reads = Callable[[Scalar], Any]
"""The value of a scalar: a text, a number, a truth value, or None."""


def as_text(scalar: Scalar) -> str:
    """The text, without interpretation."""
    return scalar.text


def strict(scalar: Scalar) -> str | int | float | bool:
    """Bare words in run files: plain numbers, `true` and `false`; all others are texts."""
    text = scalar.text
    if scalar.quoted or len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else {"true": True, "false": False}.get(text, text)


def lenient(scalar: Scalar) -> str | int | bool:
    """Bare words as lenient servers read them: quotes and case do not matter, and `yes` and `on` are true."""
    text = scalar.text.strip().lower()
    return int(text) if _SHORT_NUMBER.fullmatch(scalar.text) else _TRUTHS.get(text, scalar.text)


def yaml12(scalar: Scalar) -> str | int | float | bool | None:
    """Bare words in YAML 1.2: `1e-4` is a number, `yes` a text. Values that JSON cannot hold stay texts."""
    text = scalar.text
    if scalar.quoted:
        return text
    if scalar.empty:
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    plain = text.replace("_", "")
    try:
        if len(text) > _LONGEST_YAML_NUMBER:
            return text
        if _YAML_INTEGER.fullmatch(text):
            return int(plain)
        if _YAML_BASED.fullmatch(text):
            return int(plain, 0)
        if _YAML_FLOAT.fullmatch(text) and math.isfinite(found := float(plain)):
            return found
    except ValueError:
        pass
    return text


# --- kinds


def integer(minimum: int | None = None, maximum: int | None = None, *, of: Reads = strict) -> Kind[int]:
    """A whole number within bounds."""
    least, most = (-(2**63) if minimum is None else minimum), (2**63 - 1 if maximum is None else maximum)

    def read(scalar: Scalar) -> int:
        found = of(scalar)
        if type(found) is int and least <= found <= most:
            return found
        raise Misfit(_unquoted(scalar, of, int))

    if minimum is None:
        return Kind("a whole number", read)
    if maximum is None:
        return Kind(f"a whole number, {minimum} or more,", read)
    return Kind(f"a whole number from {minimum} to {maximum}" if minimum != maximum else f"{minimum}", read)


def number(
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    above: float | None = None,
    of: Reads = strict,
    as_written: bool = False,
) -> Kind[float]:
    """A number, with or without a fraction, within bounds; `above` itself is excluded.

    With `as_written`, a whole number stays an integer.
    """
    bounds = [f" from {minimum:g} to {maximum:g}"] if minimum is not None and maximum is not None else []
    if above is not None:
        bounds = [f" above {above:g}"] + ([f", at most {maximum:g}"] if maximum is not None else [])
    least = -LARGEST_NUMBER if minimum is None else minimum
    most = LARGEST_NUMBER if maximum is None else maximum

    def read(scalar: Scalar) -> float:
        found = of(scalar)
        if type(found) in (int, float) and least <= found <= most and (above is None or found > above):
            return found if as_written else float(found)
        raise Misfit(_unquoted(scalar, of, int, float))

    return Kind(f"a number{''.join(bounds)}", read, write=written_number)


def flag(of: Reads = strict) -> Kind[bool]:
    """`true` or `false`."""

    def read(scalar: Scalar) -> bool:
        found = of(scalar)
        if isinstance(found, bool):
            return found
        raise Misfit(_unquoted(scalar, of, bool) or _FLAG_HINTS.get(scalar.text.lower()))

    return Kind("true or false", read)


def choice(kind: type[E]) -> Kind[E]:
    """One of the words of an enumeration."""
    word = one_of([str(item) for item in kind])
    return Kind(word.description, lambda scalar: kind(word.read(scalar)))


def one_of(words: Iterable[str]) -> Kind[str]:
    """One of some words."""
    known = tuple(words)

    def read(scalar: Scalar) -> str:
        if scalar.text not in known:
            raise Misfit(did_you_mean(scalar.text, known))
        return scalar.text

    return Kind(f"one of {', '.join(known)}", read)


def words(meanings: Mapping[str, T]) -> Kind[T]:
    """One of some words, each with its meaning."""
    word = one_of(meanings)
    by_meaning = [(meaning, word) for word, meaning in meanings.items()]
    return Kind(
        word.description,
        lambda scalar: meanings[word.read(scalar)],
        write=lambda value: next(word for meaning, word in by_meaning if meaning == value),
    )


def text(description: str = "a text", *, of: Reads = as_text) -> Kind[str]:
    """Any text that fits into one argument or variable of a process."""

    def read(scalar: Scalar) -> str:
        found = of(scalar)
        if not isinstance(found, str):
            raise Misfit("put it into quotes")
        if (size := len(found.encode())) > LARGEST_TEXT_BYTES:
            raise Misfit(f"it has {size:,} bytes and {LARGEST_TEXT_BYTES:,} are allowed: put it into a file")
        return found

    return Kind(description, read)


def line(description: str, most: int | None = None) -> Kind[str]:
    """One non-empty line of text, without surrounding blanks."""
    inner = text(description)

    def read(scalar: Scalar) -> str:
        found = inner.read(scalar).strip()
        if found and found.isprintable() and len(found) <= (most or LARGEST_TEXT_BYTES):
            return found
        if most is not None:
            raise Misfit(f"one line of 1 to {most} characters")
        raise Misfit("it must be one line without control characters" if found else "it is empty")

    return Kind(description, read)


def matching(pattern: str, description: str, *, of: Reads = as_text) -> Kind[str]:
    """A text that matches the pattern entirely; the hint replaces wrong characters by dashes."""
    compiled, inner = re.compile(pattern, re.ASCII), text(description, of=of)

    def read(scalar: Scalar) -> str:
        found = inner.read(scalar)
        if compiled.fullmatch(found):
            return found
        dashed = re.sub(r"[^A-Za-z0-9._-]+", "-", found, flags=re.ASCII).strip("-._")
        good = next((each for each in (found.strip(), dashed) if each and compiled.fullmatch(each)), None)
        raise Misfit(f"{good!r} would do" if of is as_text and good else None)

    return Kind(description, read)


def secret(kind: Kind[T]) -> Kind[T]:
    """The same kind, whose values messages never show."""
    return replace(kind, secret=True)


def did_you_mean(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str | None:
    """The hint for an unknown word that is near a known one."""
    near = nearest(word, known, synonyms)
    return f"did you mean '{near}'?" if near else None


def _unquoted(scalar: Scalar, of: Reads, *types: type) -> str | None:
    """The hint, if only the quotes are wrong."""
    return (
        "take the quotes away" if scalar.quoted and type(of(replace(scalar, quoted=False))) in types else None
    )


_FLAG_HINTS = {
    **dict.fromkeys(("yes", "on", "true", "1"), "write true"),
    **dict.fromkeys(("no", "off", "false", "0"), "write false"),
}
_TRUTHS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_LONGEST_NUMBER = 18
_LONGEST_YAML_NUMBER = 100
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_SHORT_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_YAML_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*", re.ASCII)
_YAML_BASED = re.compile(r"[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)", re.ASCII)
_YAML_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?)",
    re.ASCII,
)
