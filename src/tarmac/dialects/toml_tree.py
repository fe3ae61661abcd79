"""TOML text to a located tree, for the dialects that are written in TOML.

The standard library reads TOML too, but does not tell where a value stands, and stops at the first mistake:
here reading goes on at the next line that begins like a key or a table. Depth and size are bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tarmac.dialects.located import Items, Node, Scalar, Table, shown
from tarmac.dialects.problems import Problems
from tarmac.dialects.toml_values import Unreadable, bare, quoted

LARGEST_CHARACTERS = 1 << 18
"""The largest file."""

DEEPEST = 20
"""How deep lists and tables may nest, and how many parts a dotted key may have."""


def compose(text: str, problems: Problems) -> Table | None:
    """The tree of the text; None where there is none. Whatever is wrong is noted.

    Of equal keys the first stays, and the second is noted.
    """
    if len(text) > LARGEST_CHARACTERS:
        size = f"{len(text):,} characters; {LARGEST_CHARACTERS:,} are allowed"
        problems.add_at(None, None, f"the file has {size}", "put long scripts and data into files")
        return None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    parser = _Parser(text, problems)
    if found := _CONTROL.search(text):
        parser.note(Unreadable(found.start(), f"this is not TOML: {_code(found[0])} is not allowed in it"))
        return None
    parser.parse()
    return parser.tree()


Path = list[Scalar]
"""The parts of a key; most have one."""


@dataclass(slots=True)
class _Open:
    """A table that is still being filled. `said`: it has a heading; `closed`: it stands in braces."""

    at: int
    entries: dict[str, tuple[Scalar, _Open | list[_Open] | Node]] = field(default_factory=dict)
    said: bool = False
    closed: bool = False


class _Parser:
    """Walks through the text once. What cannot be read is noted, and passed over."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._text = text
        self._problems = problems
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at = self._begun = self._noted = 0
        self._root = _Open(0)
        self._current = self._root

    def parse(self) -> None:
        """Read every statement, unless there are too many mistakes to tell."""
        while self._noted < _MOST_NOTED:
            self._skip(_BETWEEN)
            if self._at >= len(self._text):
                return
            self._begun = self._at
            try:
                self._statement()
            except Unreadable as stop:
                self.note(stop)
                self._resume(max(self._begun, stop.at), stop.end)

    def tree(self) -> Table:
        """What has been read."""
        return self._table(self._root)

    def note(self, stop: Unreadable) -> None:
        """Note what is not TOML."""
        self._noted += 1
        line, column = self._place(stop.at)
        self._problems.add_at(line, column, stop.message, stop.hint)

    # --- statements

    def _statement(self) -> None:
        if self._text.startswith("[[", self._at):
            self._heading("[[", "]]")
        elif self._text[self._at] == "[":
            self._heading("[", "]")
        else:
            self._entry(self._current, 0)
        self._skip(_BLANKS)
        if not _LINE_END.match(self._text, self._at):
            raise Unreadable(
                self._at, "the line is expected to end here", "each key stands in a line of its own"
            )

    def _heading(self, opening: str, closing: str) -> None:
        start = self._at
        self._at += len(opening)
        path = self._key()
        if not self._text.startswith(closing, self._at):
            raise Unreadable(self._at, f"{closing!r} is expected here")
        self._at += len(closing)
        table = self._walk(self._root, path[:-1])
        *_, key = path
        known = table.entries.get(key.text)
        there = known[1] if known is not None else None
        if opening == "[[":
            if there is None:
                there = []
                table.entries[key.text] = (key, there)
            if not isinstance(there, list):
                raise self._twice(key, table)
            there.append(_Open(start, said=True))
            self._current = there[-1]
            return
        if there is None:
            there = _Open(start)
            table.entries[key.text] = (key, there)
        if not isinstance(there, _Open) or there.said or there.closed:
            raise self._twice(key, table)
        there.said = True
        self._current = there

    def _entry(self, table: _Open, depth: int) -> None:
        """`key = value`, into a table."""
        path = self._key()
        if not self._text.startswith("=", self._at):
            meant = self._text.startswith(":", self._at)
            hint = (
                "this is TOML: key = value"
                if meant
                else "every line is key = value; '#' before it puts it aside"
            )
            raise Unreadable(self._at, "'=' is expected after the key", hint)
        self._at += 1
        self._skip(_BLANKS)
        value = self._value(depth)
        table = self._walk(table, path[:-1])
        *_, key = path
        if key.text in table.entries:
            self.note(self._twice(key, table))
        else:
            table.entries[key.text] = (key, value)

    def _walk(self, table: _Open, path: Path) -> _Open:
        """The table below `table` at this path; those on the way are made."""
        for key in path:
            there = table.entries.setdefault(key.text, (key, _Open(self._offset(key))))[1]
            if isinstance(there, list):
                there = there[-1]
            if not isinstance(there, _Open) or there.closed:
                raise self._twice(key, table)
            table = there
        return table

    def _key(self) -> Path:
        path: Path = []
        while True:
            self._skip(_BLANKS)
            start = self._at
            found = _BARE_KEY.match(self._text, start)
            if found is not None:
                text, self._at = found[0], found.end()
            elif self._text[start : start + 1] in ('"', "'"):
                text, self._at = quoted(self._text, start, several_lines=False)
            else:
                raise Unreadable(start, "a key is expected here: letters, digits, '_' and '-', or quotes")
            line, column = self._place(start)
            path.append(Scalar(text=text, quoted=True, line=line, column=column))
            if len(path) > DEEPEST:
                raise Unreadable(start, f"a key has at most {DEEPEST} parts")
            self._skip(_BLANKS)
            if not self._text.startswith(".", self._at):
                return path
            self._at += 1

    # --- values

    def _value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise Unreadable(self._at, f"nested deeper than {DEEPEST} levels")
        line, column = self._place(self._at)
        first = self._text[self._at : self._at + 1]
        if first == "[":
            return self._list(depth)
        if first == "{":
            return self._inline(depth)
        if first in ('"', "'") and first:
            text, self._at = quoted(self._text, self._at)
            return Scalar(text=text, quoted=True, line=line, column=column)
        scalar, self._at = bare(self._text, self._at)
        return Scalar(text=scalar.text, line=line, column=column)

    def _list(self, depth: int) -> Items:
        line, column = self._place(self._at)
        start, items = self._at, []
        self._at += 1
        while True:
            self._skip(_BETWEEN)
            if self._text.startswith("]", self._at):
                break
            items.append(self._value(depth + 1))
            self._skip(_BETWEEN)
            if self._text.startswith(",", self._at):
                self._at += 1
            elif not self._text.startswith("]", self._at):
                begun = self._place(start)[0]
                raise Unreadable(self._at, "',' or ']' is expected here", f"the list began in line {begun}")
        self._at += 1
        return Items(items=tuple(items), line=line, column=column)

    def _inline(self, depth: int) -> Table:
        table = _Open(self._at, closed=True)
        self._at += 1
        while True:
            self._skip(_BETWEEN)
            if self._text.startswith("}", self._at):
                break
            self._entry(table, depth + 1)
            self._skip(_BETWEEN)
            if self._text.startswith(",", self._at):
                self._at += 1
            elif not self._text.startswith("}", self._at):
                raise Unreadable(self._at, "',' or '}' is expected here")
        self._at += 1
        return self._table(table)

    # --- places

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _resume(self, stopped: int, end: int | None) -> None:
        """Go on where a line begins like a statement.

        That is the line of the stop itself, where something before it was never closed.
        """
        line_start = self._lines[bisect_right(self._lines, stopped) - 1]
        begun_before = line_start > self._begun
        found = _STATEMENT.search(self._text, end or (line_start if begun_before else stopped + 1))
        self._at = found.start() if found is not None else len(self._text)

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def _offset(self, key: Scalar) -> int:
        return self._lines[(key.line or 1) - 1] + (key.column or 1) - 1

    def _twice(self, key: Scalar, table: _Open) -> Unreadable:
        first = table.entries[key.text][0]
        return Unreadable(
            self._offset(key), f"{shown(key)} stands here a second time", f"first in line {first.line}"
        )

    def _table(self, opened: _Open) -> Table:
        line, column = self._place(opened.at)
        entries = tuple((key, self._node(value)) for key, value in opened.entries.values())
        return Table(entries=entries, line=line, column=column)

    def _node(self, value: _Open | list[_Open] | Node) -> Node:
        if isinstance(value, _Open):
            return self._table(value)
        if isinstance(value, list):
            line, column = self._place(value[0].at)
            return Items(items=tuple(self._table(item) for item in value), line=line, column=column)
        return value


_MOST_NOTED = 200
_BLANKS = re.compile(r"[ \t]*+")
_BETWEEN = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_LINE_END = re.compile(r"#|\n|\Z")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_STATEMENT = re.compile(r"^[ \t]*(?:\w[\w.-]*+[ \t]*=(?!=)|\[)", re.ASCII | re.MULTILINE)
"""Where reading goes on. A key may begin with '-', but such a line is rather part of a broken command."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def _code(character: str) -> str:
    return f"the character U+{ord(character):04X}"
