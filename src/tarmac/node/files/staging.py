"""Makes directories and files that appear complete or not at all. Called by engines, and on their hosts.

A directory is made in the staging area and renamed to its target; a second call finds it there. Nothing is
flushed to the disk: a power loss ends all local processes anyway, and readers detect a damaged directory.

A large file of an artifact store arrives in pieces from a server on another machine; it becomes visible only
when complete. Sidecars write directly to the same store (`artifacts/versions/blobs.py`), and name their
drafts in the same way.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any, Mapping

from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import closing

DRAFT = ".draft-"
"""The prefix of unfinished files, which listings omit."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare(staging: str) -> None:
    """Make the staging area again, without the incomplete content of a crash. Raises OSError."""
    shutil.rmtree(staging, ignore_errors=True)
    os.makedirs(staging, mode=0o700, exist_ok=True)


def make_directory(directory: str, files: Mapping[str, bytes], *, staging: str) -> bool:
    """Make a directory with these files, by relative path; False if it exists. Raises OSError."""
    if os.path.exists(directory):
        return False
    partial = os.path.join(staging, f"{os.path.basename(directory)}.{os.urandom(6).hex()}")
    try:
        os.mkdir(partial, 0o700)
        for name, content in files.items():
            path = os.path.join(partial, name)
            if "/" in name:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            untrusted.write_new(path, content)
        untrusted.make_directory(os.path.dirname(directory))
        os.rename(partial, directory)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def write_piece(path: str, begin: int, content: bytes, *, last: bool) -> None:
    """Write a piece of a file, in order from 0; the last piece makes it visible. Raises OSError."""
    directory, name = os.path.split(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, f"{DRAFT}{name}")
    with closing(os.open(draft, _NEW | (0 if begin else os.O_TRUNC), 0o600)) as handle:
        while content:
            written = os.pwrite(handle, content, begin)
            begin, content = begin + written, content[written:]
        if last:
            os.fdatasync(handle)
    if last:
        os.replace(draft, path)


def list_pieces(directory: str, prefix: str) -> list[list[Any]]:
    """Every file below `prefix` in a directory: path in the directory, bytes, and modification time.

    Raises OSError.
    """
    found: list[list[Any]] = []
    for place, _, names in os.walk(os.path.join(directory, prefix), onerror=_raise_unless_gone):
        for name in names:
            if not name.startswith(DRAFT):
                path = os.path.join(place, name)
                try:
                    facts = os.lstat(path)
                except FileNotFoundError:
                    continue
                found.append([os.path.relpath(path, directory), facts.st_size, facts.st_mtime])
    return found


def _raise_unless_gone(error: OSError) -> None:
    """Ignore a missing directory, which is empty; raise the error of an unreadable one."""
    if not isinstance(error, FileNotFoundError):
        raise error
