"""Whether the code of a run imports a package that its Python lacks. Called by `hooks.setup`."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterator, Optional

from tarmac.node.files import untrusted
from tarmac.node.setup import interpreter
from tarmac.node.setup.setupwork import SetupWork

_MOST_FILES = 5_000
_LARGEST_BYTES = 1 << 20
_NO_CODE = frozenset({"__pycache__", "node_modules", "site-packages"})
_QUESTION = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def importer(directory: str, package: str) -> Optional[str]:
    """The first file of the code, by path, that imports a package; None if there is none."""
    name = re.escape(package)
    statement = re.compile(
        rf"^[ \t]*(?:from[ \t]+{name}(?!\w)|import[ \t](?:[\w., \t]*[, \t])?{name}(?!\w))".encode(),
        re.MULTILINE,
    )
    for number, path in enumerate(_files(directory)):
        if number >= _MOST_FILES:
            break
        with suppress(OSError):
            if statement.search(untrusted.read_bytes(path, _LARGEST_BYTES)):
                return os.path.relpath(path, directory)
    return None


def is_missing(work: SetupWork, package: str) -> bool:
    """Whether the Python of the run's commands lacks a package."""
    env = work.env()
    python = interpreter.find(work, env)
    return python is None or work.ask([python, "-c", _QUESTION, package], env=env) is None


def _files(directory: str) -> Iterator[str]:
    """The Python files of a tree."""
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(
            name for name in directories if not name.startswith(".") and name not in _NO_CODE
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(place, name)
