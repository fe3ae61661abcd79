"""The one place where text is quoted for a shell. Used by `launch`, by engines and by the views of `cli`.

Printed text can be pasted into bash and means the same, and no value can control the terminal: control
characters and bytes that are not text are written as escapes.
"""

import re
from collections.abc import Iterable


def quote(text: str) -> str:
    """One word of a bash command line."""
    if _SAFE.fullmatch(text):
        return text
    if all(character.isprintable() for character in text):
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def expandable(text: str) -> str:
    """One word, in which bash still expands $NAME and ${NAME}, and nothing else; values stay one word."""
    pieces = _VARIABLE.split(text)  # literal and variable alternate
    found = "".join(
        f'"{piece}"' if index % 2 else quote(piece) for index, piece in enumerate(pieces) if piece
    )
    return found or "''"


def join(argv: Iterable[str]) -> str:
    """A whole command line."""
    return " ".join(quote(word) for word in argv)


def assignment(name: str, value: str) -> str:
    """`NAME=value`, for use before a command or after `export`."""
    return f"{name}={quote(value)}"


_VARIABLE = re.compile(r"(\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})", re.ASCII)
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e", "\\": "\\\\", "'": "\\'"}


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character.isprintable():
        return character
    # Octal bytes rather than \u, which bash converts to the bytes of its locale. Always three digits, so that
    # a following digit is not included.
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
