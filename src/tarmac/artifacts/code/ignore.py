"""Ignore rules of a code snapshot: `.tarmacignore`, else `.gitignore`, else defaults; and `exclude`.

Called by `tree.py` for every entry on its way down. The rules are git's: the last matching pattern of a file
decides, a deeper `.gitignore` overrides a higher one, and nothing below an ignored directory can be included
again. A dialect may have its own ignore file, which then applies alone; exclusions in a run file apply last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tarmac.model.errors import InvalidInput, Problem
from tarmac.node.files import untrusted

OWN_FILE = ".tarmacignore"
GIT_FILE = ".gitignore"

ALWAYS = frozenset({".git"})
"""Excluded from every snapshot regardless of ignore files, unless the whole directory is requested."""

DEFAULTS = """\
.hg/
.svn/
__pycache__/
*.pyc
.venv/
venv/
.tox/
.nox/
.cache/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.eggs/
*.egg-info/
node_modules/
.DS_Store
"""

LARGEST_BYTES = 1 << 20

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""Marker files of a Python environment: such a directory is excluded from every snapshot as well.

It belongs to one machine: its links lead to the Python of that machine.
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one ignore file, last first, which apply below its directory."""

    directory: str
    patterns: tuple[_Pattern, ...]

    def decision(self, path: str, *, is_directory: bool) -> bool | None:
        """Whether the entry at `path` is ignored: the last matching pattern decides (None: none).

        Only matches of the entry itself count, as in git: the caller has checked its parent directories
        before.
        """
        for pattern in self.patterns:
            if pattern.means(path, is_directory=is_directory):
                return pattern.include
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """Every layer that applies in a directory, outermost first.

    `nested`: deeper ignore files count as well; `always` are names that are always excluded; `exclude` is the
    layer that counts last; `links_out`: this is a Python environment in a directory that is copied whole,
    whose links to its Python are ignored.
    """

    layers: tuple[Layer, ...]
    nested: bool = False
    always: frozenset[str] = ALWAYS
    links_out: bool = False
    exclude: Layer | None = None

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether the entry at `path` (relative to the snapshot's root) is ignored."""
        if path.rpartition("/")[2] in self.always:
            return True
        if self.exclude is not None:
            decision = self.exclude.decision(path, is_directory=is_directory)
            if decision is not None:
                return decision
        for layer in reversed(self.layers):
            decision = layer.decision(path[len(layer.directory) :], is_directory=is_directory)
            if decision is not None:
                return decision
        return False

    def within(self, root: Path, path: str) -> Rules | None:
        """The rules for the directory at `path`; None if the whole directory is ignored."""
        directory = root / path
        try:
            if any((directory / mark).exists() for mark in ENVIRONMENT_MARKS):
                return None if self.always else replace(self, links_out=True)
            if not self.nested or not (directory / GIT_FILE).is_file():
                return self
        except PermissionError:
            return self  # the listing of the directory reports this error
        return replace(self, layers=(*self.layers, Layer(f"{path}/", _read(directory / GIT_FILE))))


def rules_of(
    root: Path, *, ignore_file: str | None = None, exclude: Sequence[str] = (), whole: bool = False
) -> Rules:
    """The rules for the snapshot of a directory; raises InvalidInput for an invalid pattern.

    With `ignore_file`, that file at the top applies alone, and without the file nothing is ignored.
    """
    return replace(_file_rules(root, ignore_file, whole=whole), exclude=excluding(exclude))


def excluding(patterns: Sequence[str]) -> Layer | None:
    """The layer of the run file's exclusion patterns; raises InvalidInput for an invalid one."""
    try:
        return Layer("", _patterns("\n".join(patterns))) if patterns else None
    except _NoPattern:
        problems = [f"exclude: {problem.message}" for problem in _bad_lines(Path(), "\n".join(patterns))]
        raise InvalidInput([Problem(message=message) for message in problems]) from None


def _file_rules(root: Path, ignore_file: str | None, *, whole: bool) -> Rules:
    if whole:
        return Rules((), always=frozenset())
    if ignore_file is not None:
        own = root / ignore_file
        return Rules((Layer("", _read(own)),) if own.is_file() else ())
    if (root / OWN_FILE).is_file():
        return Rules((Layer("", _read(root / OWN_FILE)),))
    if (root / GIT_FILE).is_file():
        return Rules((Layer("", _read(root / GIT_FILE)),), nested=True)
    return Rules((Layer("", _patterns(DEFAULTS)),))


def _read(path: Path) -> tuple[_Pattern, ...]:
    try:
        text = untrusted.read_bytes(str(path.resolve()), LARGEST_BYTES).decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise InvalidInput([Problem(message=f"cannot be read: {error.strerror}", file=str(path))]) from None
    try:
        return _patterns(text)
    except _NoPattern:
        raise InvalidInput(_bad_lines(path, text)) from None


@lru_cache(maxsize=64)
def _patterns(text: str) -> tuple[_Pattern, ...]:
    return tuple(pattern for line in reversed(text.split("\n")) if (pattern := parse(line)) is not None)


def _bad_lines(path: Path, text: str) -> list[Problem]:
    problems = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            parse(line)
        except _NoPattern as none:
            problem = Problem(message=f"{line!r:.200} {none}", file=str(path), line=number)
            problems.append(problem)
    return problems


_LONGEST_LINE = 4096
"""The maximum of characters in one pattern: no path is longer."""

_SLASH, _STAR, _NEVER = "/", "*", "(?!)"
_ANY = "[^/]"
_DEEP = "(?:[^/]++/)"
"""One directory of a path, which is matched with a slash at its end."""

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class _NoPattern(ValueError):
    """The line is no valid pattern; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One line of an ignore file: `include` decides whether it ignores its matches or includes them again.

    A line becomes a regular expression without repeated tries: every part between two stars is matched at its
    first place and remains there (an atomic group). This is sufficient, because the first place leaves the
    most room for the following parts. So the work is at most the length of the pattern times that of the
    path, while an expression with plain stars may never finish.
    """

    include: bool
    regex: re.Pattern[str]
    directories_only: bool
    names_only: bool

    def means(self, path: str, *, is_directory: bool) -> bool:
        """Whether the pattern matches this entry itself, not a parent directory."""
        if self.directories_only and not is_directory:
            return False
        text = path.rpartition("/")[2] if self.names_only else path
        return self.regex.fullmatch(f"{text}/") is not None


def parse(line: str) -> _Pattern | None:
    """The pattern of one line; None for a blank line, a comment, or a pattern that matches nothing."""
    text = _without_spaces(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    include = not text.startswith("!")
    text = text if include else text[1:]
    if not text:
        raise _NoPattern("is not a pattern of .gitignore")
    if len(text) > _LONGEST_LINE:
        raise _NoPattern(f"is longer than the {_LONGEST_LINE:,} characters of a pattern")
    bare = text.removesuffix("/")
    tokens = list(_tokens(bare))
    names_only = "/" not in bare  # including one in brackets, as in git
    if tokens[:1] == [_SLASH]:
        del tokens[0]
    if not tokens:
        return None
    regex = _path_regex(_segments(tokens))
    return _Pattern(include, re.compile(regex), directories_only=bare != text, names_only=names_only)


def _without_spaces(line: str) -> str:
    """The line without trailing blanks, except one after a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and len(text) < len(line) else text


def _tokens(text: str) -> Iterator[str]:
    """Slashes, stars, and expressions for one character each."""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise _NoPattern("is not a pattern of .gitignore: a backslash needs something behind it")
            yield _literal(text[at])
            at += 1
        elif char == "?":
            yield _ANY
        elif char == "[":
            expression, at = _class(text, at)
            yield expression
        elif char in (_SLASH, _STAR):
            yield char
        else:
            yield _literal(char)


def _literal(char: str) -> str:
    return _SLASH if char == "/" else re.escape(char)


def _class(text: str, at: int) -> tuple[str, int]:
    """The expression for the characters in brackets, which never matches a slash, and its end."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    first, items = True, ""
    while at < len(text):
        if text[at] == "]" and not first:
            return _one_of(items, negated=negated), at + 1
        first = False
        if text.startswith("[:", at):
            name, colon, _ = text[at + 2 :].partition(":]")
            if colon and name in _CLASSES:
                items += _CLASSES[name]
                at += len(name) + 4
                continue
            if colon and name.isalpha():
                return _NEVER, len(text)
        low, at = _member(text, at)
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(text, at + 1)
        high = max(low, high)  # a reversed range matches its first character, as in git
        items += f"{re.escape(low)}-{re.escape(high)}"
    return _NEVER, len(text)  # without its end it matches nothing, as in git


def _one_of(items: str, *, negated: bool) -> str:
    if not items:
        return _ANY if negated else _NEVER
    return f"[^/{items}]" if negated else f"(?!/)[{items}]"


def _member(text: str, at: int) -> tuple[str, int]:
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _segments(tokens: list[str]) -> list[list[str]]:
    """The tokens between slashes."""
    found: list[list[str]] = [[]]
    for token in tokens:
        if token == _SLASH:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _path_regex(segments: list[list[str]]) -> str:
    """The expression for a whole path, each part of which ends in a slash."""
    regex, chunk, deep = "", "", False
    for segment in segments:
        if not _is_deep(segment):
            chunk += f"(?>{_segment_regex(segment)}/)"
            continue
        if chunk:
            regex += f"(?>{_DEEP}*?{chunk})" if deep else chunk
        chunk, deep = "", True
    if not deep:
        return chunk
    return regex + (f"{_DEEP}*?{chunk}" if chunk else f"{_DEEP}+")


def _is_deep(segment: list[str]) -> bool:
    """Whether the segment is `**`, which matches any number of directories."""
    return len(segment) > 1 and set(segment) == {_STAR}


def _segment_regex(segment: list[str]) -> str:
    parts = [""]
    for token in segment:
        if token != _STAR:
            parts[-1] += token
        elif parts[-1] or len(parts) == 1:  # several stars in a row equal one
            parts.append("")
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return first + "".join(f"(?>[^/]*?{part})" for part in middle) + f"[^/]*{last}"
