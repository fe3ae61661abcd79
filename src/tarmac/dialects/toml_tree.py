"""TOML text to a located tree, for the files that are written in TOML.

The standard library reads the text. It reports no places, so an index adds those of the keys at the top and
in tables below it; a deeper value has the place of the value that contains it. The size is bounded.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tarmac.dialects.located import Items, Node, Placed, Problems, Scalar, Table, from_plain, quote

LARGEST_CHARACTERS = 1 << 18
"""Maximum size of a file."""

MOST_PARTS = 100
"""Maximum number of parts in a dotted key."""


_Note = tuple[Placed | None, str, str | None]
"""The place of a problem, the problem, and a hint."""


def compose(text: str, problems: Problems) -> Table | None:
    """The tree of the text; None, with the problem reported, if it is not TOML."""
    found = _parsed(text)
    if isinstance(found, Table):
        return found
    problems.add(*found)
    return None


@lru_cache(maxsize=1)
def _parsed(text: str) -> Table | _Note:
    """The tree, or the problem. Cached, because detecting the dialect parses a text before it is read."""
    if len(text) > LARGEST_CHARACTERS:
        size = f"{len(text):,} characters; {LARGEST_CHARACTERS:,} are allowed"
        return None, f"the file has {size}", "put long scripts and data into files"
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if found := _FORBIDDEN.search(text):
        message = f"this is not TOML: the character U+{ord(found[0]):04X} is not allowed in it"
        return Placed(**_place(text, found.start())), message, None
    if text.count(".") >= MOST_PARTS and (found := _LONG_KEY.search(text)):
        return Placed(**_place(text, found.start())), f"a key has at most {MOST_PARTS} parts", None
    try:
        values = tomllib.loads(text)
    except RecursionError:
        return None, "this is not TOML: lists or tables nest too deep", None
    except ValueError as error:
        return _note(str(error), text)
    places: dict[str, _Statement] = {}
    for statement in _statements(text):
        places.setdefault(statement.name, statement)
    entries = tuple(_entry(text, places[name], value) for name, value in values.items())
    return Table(entries=entries, line=1, column=1)


@dataclass(slots=True)
class _Statement:
    """Offsets of a statement: of its key, its value, and the members of a list. A table has `keys`."""

    name: str
    key: int
    value: int
    items: list[int] = field(default_factory=list)
    keys: dict[str, "_Statement"] = field(default_factory=dict)


def _entry(text: str, statement: _Statement, value: Any) -> tuple[Scalar, Node]:
    key = Scalar(text=statement.name, quoted=True, **_place(text, statement.key))
    place = _place(text, statement.value)
    if isinstance(value, list) and len(statement.items) == len(value):
        pairs = zip(value, statement.items, strict=True)
        items = tuple(from_plain(item, **_place(text, start)) for item, start in pairs)
        return key, Items(items=items, **place)
    if isinstance(value, dict) and statement.keys.keys() == value.keys():
        return key, Table(
            entries=tuple(_entry(text, statement.keys[k], v) for k, v in value.items()), **place
        )
    return key, from_plain(value, **place)


# --- the index of the keys

_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*+)"
    r'|(?P<text>"""(?:[^"\\]++|\\[\s\S]|"{1,2}+(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}+(?!'))*+'{3,5}"
    r'|"(?!"")(?:[^"\\\n]++|\\.)*+"'
    r"|'(?!'')[^'\n]*+')"
    r"|(?P<unclosed>\"\"\"|'''|[\"'])"
    r"|(?P<mark>[\[\]{},=\n])"
    r"|(?P<word>[^\s#\"',=\[\]{}]++)"
)


def _statements(text: str) -> Iterator[_Statement]:
    """The statements before the first table, and the tables; assumes that the text is valid so far."""
    statement: _Statement | None = None
    table: _Statement | None = None
    heading, valued, depth = -1, False, 0
    before = "\n"
    for token in _TOKEN.finditer(text):
        mark, start = token[0], token.start()
        if token["comment"] is not None:
            continue
        if token["unclosed"] is not None:
            return
        if mark == "\n" and not depth:
            statement, heading, valued = None, -1, False
        elif statement is None and mark == "[":
            heading = start if heading < 0 else heading
        elif statement is None:
            statement = _Statement(_name(token), start, start)
            if heading >= 0:
                table = statement
            if heading >= 0 or table is None:
                yield statement
            else:
                table.keys.setdefault(statement.name, statement)
        elif heading < 0 and not valued:
            valued = before == "="
            if valued:
                statement.value = start
                depth += mark in "[{"
        elif heading < 0:
            if depth == 1 and before in "[," and mark not in "]\n":
                statement.items.append(start)
            depth += (mark in ("[", "{")) - (mark in ("]", "}"))
        before = mark if mark != "\n" or not depth else before


def _name(token: re.Match[str]) -> str:
    """The first part of a key."""
    if token["text"] is not None:
        return next(iter(tomllib.loads(f"{token[0]} = 0")))
    return token[0].partition(".")[0]


def _place(text: str, offset: int) -> dict[str, Any]:
    return {"line": text.count("\n", 0, offset) + 1, "column": offset - text.rfind("\n", 0, offset)}


# --- problems, with hints

_ERROR = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def _note(error: str, text: str) -> _Note:
    """The problem that the standard library found; no value is repeated, for it may be a secret."""
    found = _ERROR.fullmatch(error)
    message, at = error if found is None else found[1], len(text.rstrip("\n"))
    if found is not None and found[2] is not None:
        lines = text.split("\n")[: int(found[2]) - 1]
        at = sum(len(line) + 1 for line in lines) + int(found[3]) - 1
    at, message, hint = _explain(message, text, at)
    return Placed(**_place(text, at)), message, hint


def _explain(message: str, text: str, at: int) -> tuple[int, str, str | None]:
    """The start of a mistake, its description, and a hint; `at` is where the standard library stopped."""
    if message.startswith(_NOT_CLOSED):
        unclosed = next((token for token in _TOKEN.finditer(text) if token["unclosed"] is not None), None)
        if unclosed is not None and len(unclosed[0]) == 3:
            mark = unclosed[0]
            return unclosed.start(), f"a text in {mark} begins here and never ends", f"put {mark} behind it"
        if unclosed is not None:
            return unclosed.start(), *_ADVICE["Unterminated string"]
    if message.startswith("Expected '='"):
        other = "every line is key = value; '#' before it puts it aside"
        hint = "this is TOML: key = value" if text[at : at + 1] == ":" else other
        return at, "'=' is expected after the key", hint
    if message.startswith("Unescaped") and text[at - 2 : at - 1] == "\\":
        at, escape = at - 2, ascii(text[at - 2 : at])[2:-1]
        hint = "write two backslashes, or put the text into ''' or ' where nothing is escaped"
        return at, f"{escape} is no escape of TOML", hint
    if text[:at].endswith("= 0"):
        return at - 1, "a number has no zeros before it", None
    if message.startswith("Cannot overwrite"):
        seen: dict[str, _Statement] = {}
        for statement in _statements(text):
            if (first := seen.setdefault(statement.name, statement)) is not statement:
                name = quote(Scalar(text=statement.name, quoted=True))
                line = _place(text, first.key)["line"]
                return statement.key, f"{name} occurs here a second time", f"first in line {line}"
    return at, *_ADVICE.get(message, (f"this is not TOML: {message}", None))


_NOT_CLOSED = ("Illegal character '\\n'", "Unterminated string", "Expected \"'", "Expected '\"")
_ADVICE = {
    "Unterminated string": (
        "a text in quotes begins here and does not end in its line",
        "three quotes, ''' or \"\"\", go around a text of several lines",
    ),
    "Invalid value": (
        "a value is expected: texts are written in quotes, lists in [ ]",
        'as in name = "value"',
    ),
    "Expected newline or end of document after a statement": (
        "the line is expected to end here",
        "write each key on a line of its own",
    ),
    "Unclosed array": ("',' or ']' is expected here", None),
    "Unclosed inline table": ("',' or '}' is expected here", None),
}
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_LONG_KEY = re.compile(rf"(?<![\w\"'.-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}", re.ASCII)
