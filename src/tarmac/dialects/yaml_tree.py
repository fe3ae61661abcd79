"""YAML text to a located tree, for the dialects that are written in YAML.

Uses the parser's events alone: no value is ever constructed, so no tag can run code, and bare words such as
`no`, `1:30` and `010` stay texts. Depth, size and the growth through aliases are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml

from tarmac.dialects.located import Items, Node, Placed, Problems, Scalar, Table, quote

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
        problems.add(None, f"the file has {size}", "put long scripts and data into files of the code")
        return None
    text = text.removeprefix("\ufeff")
    try:
        try:
            return _build(text, problems, _FAST, lenient)
        except (yaml.YAMLError, ValueError, OverflowError):
            # Parse again with the parser whose messages do not depend on how PyYAML was built.
            return _build(text, problems, yaml.SafeLoader, lenient)
    except _Unreadable as stop:
        problems.add(stop.place, stop.message, stop.hint)
    except yaml.MarkedYAMLError as error:
        _note_syntax(error, problems)
    except yaml.reader.ReaderError as error:
        place = _position(text, error.position)
        problems.add(place, f"this is not YAML: the character {_code(error)} is not allowed")
    except (ValueError, OverflowError):
        problems.add(None, "this is not YAML: an escape names a character that does not exist")
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
        self.place = Placed(**_at(mark))
        self.message = message
        self.hint = hint


def _build(text: str, problems: Problems, loader: Any, lenient: bool) -> Node | None:
    builder = _parsed(text, loader, lenient)
    problems.warnings += builder.warnings
    for at, message, hint in builder.notes:
        problems.add(at, message, hint)
    if builder.root is None or (isinstance(builder.root, Scalar) and builder.root.empty):
        problems.add(None, "the file is empty")
        return None
    return builder.root


@lru_cache(maxsize=_MOST_TEXTS)
def _parsed(text: str, loader: Any, lenient: bool) -> _Builder:
    """A builder that has taken the whole text; read-only.

    Cached, because several dialects inspect a text before one of them reads it.
    """
    return _Builder(yaml.parse(text, Loader=loader), lenient=lenient)


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
    """Builds the tree from parser events. Its recursion ends at the deepest allowed level."""

    def __init__(self, events: Iterator[Any], *, lenient: bool) -> None:
        self.root: Node | None = None
        self.warnings: list[str] = []
        self._events = events
        self._lenient = lenient
        self.notes: list[tuple[Node, str, str | None]] = []
        self._open: list[str | None] = []  # the anchors of lists and mappings around the present event
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._weight = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
                raise _Unreadable(event.start_mark, "a second document begins here; a file describes one run")
            if isinstance(event, yaml.NodeEvent):
                self.root = self._node(event)

    def _node(self, event: Any) -> Node:
        """The node that begins with an event."""
        if getattr(event, "tag", None):
            raise _Unreadable(
                event.start_mark,
                f"tags are not allowed: {event.tag.replace(_YAML_TAGS, '!!')!r}",
                "take the tag out",
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._weight
        node = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._weight - before)
        return node

    def _alias(self, event: Any) -> Node:
        known = self._anchors.get(event.anchor)
        if known is None:
            what = "contains itself" if event.anchor in self._open else "is not defined before this line"
            raise _Unreadable(event.start_mark, f"the anchor {event.anchor!r} {what}")
        node, weight = known
        self._weigh(event, weight)
        return node

    def _scalar(self, event: Any) -> Node:
        text = _whole_characters(event)
        self._weigh(event, len(text) + 1)
        return Scalar(text=text, quoted=not event.implicit[0], **_at(event.start_mark))

    def _collection(self, event: Any) -> Node:
        if len(self._open) >= DEEPEST:
            raise _Unreadable(event.start_mark, f"nested deeper than {DEEPEST} levels")
        self._open.append(event.anchor)
        parts = []
        while not isinstance(part := next(self._events), yaml.CollectionEndEvent):
            parts.append(self._node(part))
        self._open.pop()
        self._weigh(event, 1)
        at = _at(event.start_mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return Items(items=tuple(parts), **at)
        return Table(entries=self._entries(parts), **at)

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
    problems.add(Placed(**_at(mark)) if mark else None, message, _advice(error))


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


def _position(text: str, index: int) -> Placed:
    before = text[:index]
    return Placed(line=before.count("\n") + 1, column=index - before.rfind("\n"))
