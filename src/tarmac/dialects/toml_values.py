"""The values of TOML that have no parts: texts in their four kinds of quotes, numbers, truth values, dates.

Called by `toml_tree` with the text and the place where a value begins; nothing here knows of keys or tables.
"""

from __future__ import annotations

import re

from tarmac.dialects.located import Scalar


class Unreadable(Exception):
    """What stands at offset `at` is not TOML; what it is part of ends at `end`, where that is known."""

    def __init__(self, at: int, message: str, hint: str | None = None, *, end: int | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint
        self.end = end


def quoted(text: str, at: int, *, several_lines: bool = True) -> tuple[str, int]:
    """The text in quotes that begins at `at`, and where it ends. Keys have no `several_lines`."""
    for mark, pattern in _LONG.items() if several_lines else ():
        if text.startswith(mark, at):
            return _long(text, at, mark, pattern)
    basic = text[at] == '"'
    found = (_BASIC if basic else _LITERAL).match(text, at)
    if found is None:
        raise Unreadable(
            at,
            "a text in quotes begins here and does not end in its line",
            "three quotes, ''' or \"\"\", go around a text of several lines" if several_lines else None,
        )
    return _said(found[1], found, escapes=basic)


def bare(text: str, at: int) -> tuple[Scalar, int]:
    """The number, truth value or date that begins at `at` (without its place), and where it ends."""
    found = _DATE.match(text, at) or _WORD.match(text, at)
    if found is None:
        raise Unreadable(at, "there is no value")
    word = found[0]
    if word in ("true", "false") or _DATE.fullmatch(word) or word.lstrip("+-") in ("inf", "nan"):
        return Scalar(text=word), found.end()
    if _INTEGER.fullmatch(word) or _FLOAT.fullmatch(word):
        return Scalar(text=word.replace("_", "").removeprefix("+")), found.end()
    if _OTHER_BASE.fullmatch(word) and len(word) < _LONGEST_NUMBER:
        return Scalar(text=str(int(word.replace("_", ""), 0))), found.end()
    raise Unreadable(at, *_mistaken(word))


_LONGEST_NUMBER = 60
_LONG = {
    '"""': re.compile(r'"""\n?((?:[^"\\]++|\\[\s\S]|"{1,2}+(?!"))*+)("{3,5})'),
    "'''": re.compile(r"'''\n?((?:[^']++|'{1,2}+(?!'))*+)('{3,5})"),
}
_BASIC = re.compile(r'"((?:[^"\\\n]++|\\.)*+)"')
_LITERAL = re.compile(r"'([^'\n]*+)'")
_WORD = re.compile(r"[^\s,\[\]{}#=\"']+")
_INTEGER = re.compile(r"[+-]?(0|[1-9](_?[0-9])*)", re.ASCII)
_FLOAT = re.compile(r"[+-]?(0|[1-9](_?[0-9])*)(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?", re.ASCII)
_OTHER_BASE = re.compile(r"0x[0-9A-Fa-f](_?[0-9A-Fa-f])*|0o[0-7](_?[0-7])*|0b[01](_?[01])*", re.ASCII)
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
_DATE = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([Tt ]{_TIME}([Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?)?|{_TIME}", re.ASCII
)
_ESCAPE = re.compile(
    r"\\(?:([btnfre\"\\])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[ \t]*\n\s*)"
)
_LETTERS = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def _long(text: str, at: int, mark: str, pattern: re.Pattern[str]) -> tuple[str, int]:
    found = pattern.match(text, at)
    if found is None:
        raise Unreadable(
            at, f"a text in {mark} begins here and never ends", f"put {mark} behind it", end=len(text)
        )
    inside = found[1] + found[2][3:]  # quotes beside the closing ones belong to the text
    return _said(inside, found, escapes=mark == '"""')


def _said(inside: str, found: re.Match[str], *, escapes: bool) -> tuple[str, int]:
    """What a text says, and where it ends with its quotes."""
    try:
        return (_unescaped(inside, found.start(1)) if escapes else inside), found.end()
    except Unreadable as stop:
        stop.end = found.end()
        raise


def _unescaped(inside: str, at: int) -> str:
    """What a text in double quotes says; `at` is where it begins."""

    def character(found: re.Match[str]) -> str:
        letter, *codes = found.groups()
        if letter is not None:
            return _LETTERS[letter]
        code = next((code for code in codes if code is not None), None)
        if code is None:  # a line end that is escaped goes with the blanks of the next line
            return ""
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise Unreadable(at + found.start(), "this escape names a character that does not exist")
        return chr(number)

    if "\\" not in inside:
        return inside
    parts, last = [], 0
    while (backslash := inside.find("\\", last)) >= 0:
        found = _ESCAPE.match(inside, backslash)
        if found is None:
            raise Unreadable(
                at + backslash,
                f"\\{ascii(inside[backslash + 1 : backslash + 2])[1:-1]} is no escape of TOML",
                "write two backslashes, or put the text into ''' or ' where nothing is escaped",
            )
        parts += [inside[last:backslash], character(found)]
        last = found.end()
    return "".join([*parts, inside[last:]])


def _mistaken(word: str) -> tuple[str, str | None]:
    """What is wrong with a word that is no value, and what to do; it may be a secret and is not told."""
    if word.lower() in ("true", "false", "yes", "no", "on", "off", "none", "null", "nil"):
        return f"{word!r} is no value of TOML", "write true or false, or take the key out"
    if re.fullmatch(r"[+-]?0[0-9_]+", word, re.ASCII):
        return "a number has no zeros before it", None
    return "a value is expected: a text stands in quotes, lists in [ ]", 'as in compute_mode = "cycle"'
