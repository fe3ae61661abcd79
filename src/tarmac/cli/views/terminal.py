"""The properties of an output stream: width and colour. Used by every renderer here.

Colour only on a terminal, never with NO_COLOR (no-color.org) or a dumb one. A stream that is not a terminal
has no width: nothing is cut there, so that `grep` finds everything.
"""

import os
import sys
import unicodedata
from contextlib import suppress
from typing import NamedTuple, TextIO

ELLIPSIS = "…"

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Terminal(NamedTuple):
    """One output stream: its width in columns (None: not a terminal), whether it shows colour."""

    width: int | None = None
    colour: bool = False

    def paint(self, text: str, style: str | None) -> str:
        """`text` in a style of `_CODES`, if the stream shows styles."""
        if not self.colour or not text or style is None:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def terminal_of(stream: TextIO) -> Terminal:
    """The properties of a stream, from it and from the environment."""
    if not stream.isatty():
        return Terminal()
    dumb = os.environ.get("TERM") == "dumb"
    return Terminal(width=terminal_columns(100), colour=not dumb and not os.environ.get("NO_COLOR"))


def terminal_columns(otherwise: int) -> int:
    """The columns of the terminal: of the variable COLUMNS, or of stdout, or `otherwise`.

    `shutil.get_terminal_size` answers the same, and imports modules for archives before it does.
    """
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError, AttributeError):  # stdout is no terminal, closed or replaced
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    return otherwise


def stdout_terminal() -> Terminal:
    """The terminal of stdout, for answers."""
    return terminal_of(sys.stdout)


def stderr_terminal() -> Terminal:
    """The terminal of stderr, for notes and errors."""
    return terminal_of(sys.stderr)


def columns(text: str) -> int:
    """The number of columns of a text: wide characters have two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def fit(text: str, width: int) -> str:
    """`text`, cut to `width` columns; a cut is marked by an ellipsis."""
    if columns(text) <= width:
        return text
    characters, used = [], 0
    for character in text:
        used += _columns_of(character)
        if used > width - 1:
            break
        characters.append(character)
    return "".join(characters).rstrip() + ELLIPSIS


def one_line(text: str) -> str:
    """`text` as a single harmless line: no line ends, no control characters that would move the cursor."""
    if text.isprintable():
        return text
    flat = " ".join(text.split())
    return "".join(character if character.isprintable() else "�" for character in flat)


def harmless(text: str) -> str:
    """`text` with its lines, without characters that move the cursor or change the reading direction."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "�" for one in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
