"""YAML text to a located tree, for the dialects that are written in YAML.

Uses the parser's events alone: no value is ever constructed, so no tag can run code, and bare words such as
`no`, `1:30` and `010` stay texts. Depth, size and the growth through aliases are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from tarmac.dialects.located import Items, Node, Problems, Scalar, Table, quote

LARGEST_CHARACTERS = 1 << 18
"""Maximum size of a file, and of the tree after aliases are expanded."""

DEEPEST = 20
"""Maximum depth of nested lists and mappings."""


def compose(text: str, problems: Problems, *, lenient: bool = False) -> Node | None:
    """The tree of the one document in `text`; None, with the problem reported, if there is none.

    Duplicate keys are reported, and the first of them stays; merge keys are refused. With `lenient`, both
    work as in other programs: merged keys are included, and the last of equal keys counts, with a warning.
    """
    if len(text) > LARGEST_CHARACTERS:
        size = f"{len(text):,} characters; {LARGEST_CHARACTERS:,} are allowed"
        problems.add_at(
            None, None, f"the file has {size}", "put long scripts and data into files of the code"
        )
        return None
    text = text.removeprefix("\ufeff")
    try:
        try:
            return _build(text, problems, _FAST, lenient)
        except (yaml.YAMLError, ValueError, OverflowError):
            # Parse again with the parser whose messages do not depend on how PyYAML was built.
            return _build(text, problems, yaml.SafeLoader, lenient)
    except _Unreadable as stop:
        problems.add_at(stop.line, stop.column, stop.message, stop.hint)
    except yaml.MarkedYAMLError as error:
        _note_syntax(error, problems)
    except yaml.reader.ReaderError as error:
        line, column = _position(text, error.position)
        problems.add_at(line, column, f"this is not YAML: the character {_code(error)} is not allowed")
    except (ValueError, OverflowError):
        problems.add_at(None, None, "this is not YAML: an escape names a character that does not exist")
    return None


def compose_table(text: str, problems: Problems, expected: str, *, lenient: bool = False) -> Table:
    """The mapping in a text; raises InvalidInput with the problem if it is none."""
    tree = compose(text, problems, lenient=lenient)
    if isinstance(tree, Table):
        return tree
    if tree is not None:
        problems.add(tree, f"{expected} expected, not {quote(tree)}")
    problems.raise_any()
    raise AssertionError("a text without a tree has a problem")


_YAML_TAGS = "tag:yaml.org,2002:"
_MOST_TEXTS = 2  # one text, read strictly and leniently
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Unreadable(Exception):
    """The document violates a limit of this module."""

    def __init__(self, mark: Any, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.line, self.column = mark.line + 1, mark.column + 1
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been parsed yet."""

    start: Any
    weight_before: int
    parts: list[Node] = field(default_factory=list)


def _build(text: str, problems: Problems, loader: Any, lenient: bool) -> Node | None:
    builder = _parsed(text, loader, lenient)
    problems.warnings += builder.warnings
    for at, message, hint in builder.notes:
        problems.add(at, message, hint)
    if builder.root is None or (isinstance(builder.root, Scalar) and builder.root.empty):
        problems.add_at(None, None, "the file is empty")
        return None
    return builder.root


@lru_cache(maxsize=_MOST_TEXTS)
def _parsed(text: str, loader: Any, lenient: bool) -> _Builder:
    """A builder that has taken the whole text; read-only.

    Cached, because several dialects inspect a text before one of them reads it.
    """
    builder = _Builder(lenient=lenient)
    for event in yaml.parse(text, Loader=loader):
        builder.take(event)
    return builder


def _whole_characters(event: Any) -> str:
    r"""The text of a scalar; JSON writes characters beyond 16 bits as two halves: \ud83d\ude00."""
    text: str = event.value
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise _Unreadable(event.start_mark, "the text contains half of a surrogate pair") from None


class _Builder:
    """Builds the tree from parser events, without recursion."""

    def __init__(self, *, lenient: bool) -> None:
        self.root: Node | None = None
        self.warnings: list[str] = []
        self._lenient = lenient
        self.notes: list[tuple[Node, str, str | None]] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._weight = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise _Unreadable(event.start_mark, "a second document begins here; a file describes one run")
        if getattr(event, "tag", None):
            raise _Unreadable(
                event.start_mark,
                f"tags are not allowed: {event.tag.replace(_YAML_TAGS, '!!')!r}",
                "take the tag out",
            )
        if isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(self._open) >= DEEPEST:
                raise _Unreadable(event.start_mark, f"nested deeper than {DEEPEST} levels")
            self._open.append(_Open(event, self._weight))
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            self._close()

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            inside = any(item.start.anchor == event.anchor for item in self._open)
            what = "contains itself" if inside else "is not defined before this line"
            raise _Unreadable(event.start_mark, f"the anchor {event.anchor!r} {what}")
        node, weight = known
        self._weigh(event, weight)
        self._place(node)

    def _scalar(self, event: Any) -> None:
        text = _whole_characters(event)
        node = Scalar(text=text, quoted=not event.implicit[0], **_at(event.start_mark))
        before = self._weight
        self._weigh(event, len(text) + 1)
        self._finish(node, event.anchor, before)

    def _close(self) -> None:
        opened = self._open.pop()
        at = _at(opened.start.start_mark)
        node: Node
        if isinstance(opened.start, yaml.SequenceStartEvent):
            node = Items(items=tuple(opened.parts), **at)
        else:
            node = Table(entries=self._entries(opened.parts), **at)
        self._weigh(opened.start, 1)
        self._finish(node, opened.start.anchor, opened.weight_before)

    def _entries(self, parts: list[Node]) -> tuple[tuple[Scalar, Node], ...]:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.notes.append((key, "a key must be a word, not a list or mapping", None))
            elif self._lenient and key.text == "<<" and not key.quoted:
                self._merge(value, merged)
            elif self._lenient and key.text in entries:
                first = entries[key.text][0].line
                self.warnings.append(
                    f"line {key.line}: {quote(key)} occurs in line {first} too; the last one counts"
                )
                entries[key.text] = (key, value)
            elif key.text == "<<" and not key.quoted:
                self.notes.append((key, "merge keys ('<<') are not supported", "write the fields out"))
            elif key.text in entries:
                hint = f"first in line {entries[key.text][0].line}"
                self.notes.append((key, f"{quote(key)} occurs here a second time", hint))
            else:
                entries[key.text] = (key, value)
        return tuple((merged | entries).values())

    def _merge(self, value: Node, merged: dict[str, tuple[Scalar, Node]]) -> None:
        """Collect the keys of a merge; of several mappings, the first that has a key counts."""
        for table in value.items if isinstance(value, Items) else (value,):
            if not isinstance(table, Table):
                self.notes.append((table, "'<<' merges mappings, and this is none", None))
                continue
            for key, item in table.entries:
                merged.setdefault(key.text, (key, item))

    def _finish(self, node: Node, anchor: str | None, weight_before: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, self._weight - weight_before)
        self._place(node)

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1].parts.append(node)
        else:
            self.root = node

    def _weigh(self, event: Any, weight: int) -> None:
        self._weight += weight
        if self._weight > 2 * LARGEST_CHARACTERS:
            raise _Unreadable(event.start_mark, "aliases make the file too large when they are written out")


def _at(mark: Any) -> dict[str, Any]:
    return {"line": mark.line + 1, "column": mark.column + 1}


def _note_syntax(error: yaml.MarkedYAMLError, problems: Problems) -> None:
    mark = error.problem_mark or error.context_mark
    message = f"this is not YAML: {error.problem or error.context}"
    if "quoted scalar" in (error.context or "") and "end of stream" in message:
        mark, message = error.context_mark, "this is not YAML: a text in quotes begins here and never ends"
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    problems.add_at(line, column, message, _advice(error))


def _advice(error: yaml.MarkedYAMLError) -> str | None:
    """A hint for common mistakes of newcomers."""
    problem = error.problem or ""
    if "mapping values are not allowed" in problem:
        return "a text with ': ' in it needs quotes, and fields of one group the same indentation"
    if "\\t" in problem:
        return "indent with blanks, not with tabs"
    if problem.startswith("expected ',' or") and error.context_mark is not None:
        return f"the bracket or brace of line {error.context_mark.line + 1} is not closed before this"
    if "expected <block end>" in problem:
        return "check the indentation and the quotes of the lines above"
    return None


def _code(error: yaml.reader.ReaderError) -> str:
    character = error.character
    return f"U+{character if isinstance(character, int) else ord(character):04X}"


def _position(text: str, index: int) -> tuple[int, int]:
    before = text[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1
