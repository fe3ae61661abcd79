"""Words for messages: the nearest known word, and lists that end in "and N more". For all layers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

_LONGEST_WORD = 100


def nearest(
    word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None, *, cutoff: float = 0.6
) -> str | None:
    """The known word that is nearest, ignoring case; None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 only an error needs it

    names = {name.lower(): name for name in sorted(known)}
    matches = get_close_matches(word.lower()[:_LONGEST_WORD], names, n=1, cutoff=cutoff)
    return (synonyms or {}).get(word.lower()) or (names[matches[0]] if matches else None)


def suggestion(
    word: str, known: Collection[str], otherwise: str, synonyms: Mapping[str, str] | None = None
) -> str:
    """The hint for an unknown word: the nearest known one, or `otherwise`."""
    near = nearest(word, known, synonyms)
    return f"did you mean {near}?" if near else otherwise


def listed(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first of some items, and the number of others: `a, b and 3 more`."""
    shown, more = separator.join(items[:most]), len(items) - most
    if more <= 0:
        return shown
    return f"{shown}{'' if separator == ', ' else separator.rstrip()} and {more:,} more"
