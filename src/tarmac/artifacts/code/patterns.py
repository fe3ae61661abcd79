"""Compiles a line of an ignore file into a pattern of bounded cost for any input. Called by `ignore.py`.

The meaning is git's. A line becomes a regular expression without repeated tries: every part between two stars
is matched at its first place and remains there (an atomic group). This is sufficient, because the first place
leaves the most room for the following parts. So the work is at most the length of the pattern times that of
the path, while an expression with plain stars may never finish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_LINE = 4096
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


class NoPattern(ValueError):
    """The line is no valid pattern; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file: `include` decides whether it ignores its matches or includes them again."""

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


def parse(line: str) -> Pattern | None:
    """The pattern of one line; None for a blank line, a comment, or a pattern that matches nothing."""
    text = _without_spaces(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    include = not text.startswith("!")
    text = text if include else text[1:]
    if not text:
        raise NoPattern("is not a pattern of .gitignore")
    if len(text) > LONGEST_LINE:
        raise NoPattern(f"is longer than the {LONGEST_LINE:,} characters of a pattern")
    bare = text.removesuffix("/")
    tokens = list(_tokens(bare))
    names_only = "/" not in bare  # including one in brackets, as in git
    if tokens[:1] == [_SLASH]:
        del tokens[0]
    if not tokens:
        return None
    regex = _path_regex(_segments(tokens))
    return Pattern(include, re.compile(regex), directories_only=bare != text, names_only=names_only)


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
                raise NoPattern("is not a pattern of .gitignore: a backslash needs something behind it")
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
