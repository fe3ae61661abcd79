"""The project of LocalDir: its root directory, and the check of its size. Called by `form`.

Runs on Python 3.9: see the package.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from .errors import RequestError

MARKS = (".git", "pyproject.toml", "requirements.txt")
"""Names at the top of a project."""

LIMIT_BYTES = 50 * 1024 * 1024
"""Maximum size of a packed project."""

_PIECE_BYTES = 1 << 20


def project_root() -> str:
    """The nearest directory, from the current one upwards, that is the top of a project; prints its path."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if directory == directory.parent:  # the root of the disk is no project
            break
        for mark in MARKS:
            if (directory / mark).exists():
                sys.stdout.write(f"Found {directory / mark}\n")
                return str(directory)
    raise RequestError("Could not find a project root", f"its top has one of {', '.join(MARKS)}")


def refuse_if_too_large(root: str, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """Raise an error if the project exceeds the limit, packed as Clusterfudge packed it."""
    if sum(size_bytes for _, size_bytes in _files(root)) <= limit_bytes:
        return
    packed_bytes = sum(_packed_bytes(path) for path, _ in _files(root))
    if packed_bytes > limit_bytes:
        raise RequestError(
            f"Launch specifies LocalDir deployment but project directory {root} is too large "
            f"({packed_bytes / (1024 * 1024):.1f}MB). Maximum size is 50MB. "
            "Ensure you have no large files (e.g. .venv, model weights, etc.) in your working directory. "
            "You can also use a Git repository instead of a local directory.",
            f"the largest: {_largest(root)}",
        )


def _files(root: str) -> Iterator[tuple[str, int]]:
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            try:
                yield path, os.stat(path).st_size
            except OSError:  # a dangling link, or a removed file
                continue


def _packed_bytes(path: str) -> int:
    packer = zlib.compressobj()
    size_bytes = 0
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                size_bytes += len(packer.compress(piece))
    except OSError:
        return size_bytes
    return size_bytes + len(packer.flush())


def _largest(root: str) -> str:
    largest = sorted(_files(root), key=lambda file: -file[1])[:3]
    sizes = (f"{os.path.relpath(path, root)} ({size / (1024 * 1024):.1f}MB)" for path, size in largest)
    return ", ".join(sizes)
