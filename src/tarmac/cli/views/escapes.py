"""Makes the output of workers safe for a terminal. Used by views and by `dialogue`.

Control sequences can set a terminal's title, fill the clipboard, type for the user, or reorder a text.
Colours and the cursor moves of a progress bar stay; all others are shown instead of executed. Text for a file
or a pipe is never changed.
"""

import re
from collections.abc import Iterator
from typing import Any

COLOUR = r"\x1b\[[0-9;:]{0,24}m"
MOVES = r"\x1b\[[0-9;]{0,12}[ABCDGK]|\r|\x08"

_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_COLOUR_OR_UNSAFE = f"({COLOUR})|{_UNSAFE}"
_MOVES_OR_UNSAFE = f"({COLOUR}|{MOVES})|{_UNSAFE}"


def lines_only(text: str) -> str:
    """`text` with its lines and colours; other control sequences are made visible."""
    return text if text.isprintable() else re.sub(_COLOUR_OR_UNSAFE, _shown, text)


def with_moves(text: str) -> str:
    """Like `lines_only`, but keeps sequences that redraw a line: for the output of a single worker."""
    return text if text.isprintable() else re.sub(_MOVES_OR_UNSAFE, _shown, text)


def json_text(document: Any, *, indent: int | None = None) -> str:
    r"""A document of records, lists and dicts as JSON: a record has all its fields.

    Control characters are written as `\uXXXX`: a program reads the same.
    """
    import json

    import msgspec

    plain = msgspec.to_builtins(document)
    text = _escaped(json.dumps(plain, ensure_ascii=False))
    if indent is None:
        return text
    try:
        return msgspec.json.format(text, indent=indent)  # 6 times quicker than Python's own indentation
    except msgspec.DecodeError:  # NaN, which is not in the JSON of the standard
        return _escaped(json.dumps(plain, indent=indent, ensure_ascii=False))


def json_pieces(document: Any, indent: str = "") -> Iterator[str]:
    """The same with an indentation of 2, piece by piece: an iterator is written as a list while it is read.

    Iterators are in lists, or values of dicts.
    """
    if isinstance(document, dict) and any(isinstance(value, Iterator) for value in document.values()):
        opening, closing = "{}"
        parts = ((f"{json_text(name)}: ", value) for name, value in document.items())
    elif isinstance(document, Iterator):
        opening, closing = "[]"
        parts = (("", value) for value in document)
    else:
        yield json_text(document, indent=2).replace("\n", f"\n{indent}")
        return
    before = opening
    for name, value in parts:
        yield f"{before}\n{indent}  {name}"
        yield from json_pieces(value, f"{indent}  ")
        before = ","
    yield opening + closing if before == opening else f"\n{indent}{closing}"


def _escaped(text: str) -> str:
    return re.sub(_UNSAFE, lambda found: f"\\u{ord(found[0]):04x}", text)


def split_unfinished(text: str) -> tuple[str, str]:
    """`text`, and an unfinished sequence at its end that the next piece will complete."""
    found = re.search(r"\x1b(?:\[[0-9;:]{0,24})?\Z", text[-32:])
    return (text.removesuffix(found[0]), found[0]) if found else (text, "")


def _shown(found: re.Match[str]) -> str:
    if found[1] is not None:
        return found[1]
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "�"
