"""Reads files of variables (`.env`) for `tarmac run --env-file`. Called by `overriding`.

The syntax is that of dotenv files, without substitution: `$` stands for itself. Errors quote no line, because
such files hold keys and passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tarmac.cli.runfile import read_text
from tarmac.model.errors import InvalidInput, Problem

_START = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[^\s=#'\"]+)[ \t]*(?P<equals>=?)[ \t]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_COMMENT = re.compile(r"\s#")
_REST = re.compile(r"[ \t]*(?:#.*)?(?=\n|\Z)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(file: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables in a file; a name alone takes its value from `environment`, by default this process's.

    Raises InvalidInput with all problems, each with file and line.
    """
    text = read_text(file, what="a file of variables").text.replace("\r\n", "\n")
    return _Parser(file, text, os.environ if environment is None else environment).variables()


class _Parser:
    """Reads assignments one after the other, and collects problems."""

    def __init__(self, file: str, text: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._text = text
        self._environment = environment
        self._problems: list[Problem] = []

    def variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        at = 0
        while at < len(self._text):
            end = self._line_end(at)
            line = self._text[at:end].strip()
            if not line or line.startswith("#"):
                at = end + 1
                continue
            at = self._assignment(at, end, found)
        if self._problems:
            raise InvalidInput(self._problems)
        return found

    def _assignment(self, at: int, end: int, found: dict[str, str]) -> int:
        """Read the assignment at `at` into `found`; return the start of the next line."""
        start = _START.match(self._text, at, end)
        if start is None or not _NAME.fullmatch(start["name"]):
            self._refuse(at, "this is not of the form NAME=VALUE", "a NAME is letters, digits and _")
            return end + 1
        name = start["name"]
        if not start["equals"]:
            if not _REST.match(self._text, start.end()):
                self._refuse(at, f"there is no = after {name}", "write NAME=VALUE")
            elif name not in self._environment:
                self._refuse(at, f"{name} is not set here, so there is no value to copy", f"{name}=VALUE")
            else:
                found[name] = self._environment[name]
            return end + 1
        mark = self._text[start.end() : start.end() + 1]
        if mark not in ("'", '"'):
            value = _COMMENT.split(self._text[start.end() : end], maxsplit=1)[0].rstrip()
            found[name] = "" if value.startswith("#") else value
            return end + 1
        return self._quoted(name, start.end(), mark, found)

    def _quoted(self, name: str, at: int, mark: str, found: dict[str, str]) -> int:
        quoted = (_SINGLE if mark == "'" else _DOUBLE).match(self._text, at)
        if quoted is None:
            self._refuse(
                at, f"the value of {name} begins with {mark} and does not end", f"close it with {mark}"
            )
            return len(self._text)
        if not _REST.match(self._text, quoted.end()):
            self._refuse(
                at, f"there is more after the quoted value of {name}", "put all of it into the quotes"
            )
        value = quoted[1]
        if mark == '"':
            value = re.sub(r"\\(.)", lambda pair: _ESCAPES.get(pair[1], pair[1]), value, flags=re.DOTALL)
        found[name] = value
        return self._line_end(quoted.end()) + 1

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _refuse(self, at: int, message: str, hint: str) -> None:
        line = self._text.count("\n", 0, at) + 1
        self._problems.append(Problem(message=f"{self._file}:{line}: {message}", hint=hint))
