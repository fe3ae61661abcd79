"""Removes unused copies on a site's disk: snapshots of code and older versions of tarmac.

Called on the hosts of engines. The engine copies them again if an attempt needs them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from tarmac.node.attempt.document import Unreadable, read_document
from tarmac.node.attempt.protocol import ATTEMPT_FILE
from tarmac.node.files.codestore import PACK_SUFFIX, PACKS, PARTIAL_PREFIX, is_digest

_DAY_S = 86_400.0


def use(path: str) -> bool:
    """Whether the path exists; if so, its time of last use is set to now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def clear(home: str, live: Collection[str], *, unused_days: float, version: str) -> int:
    """Remove copies unused for `unused_days` that no attempt of the live runs needs; returns their number.

    `version` is the tarmac of new attempts, and stays.
    """
    before = time.time() - unused_days * _DAY_S
    used = {version, *_used(home, live)}
    removed = 0
    for snapshot in _older(os.path.join(home, "code"), before):
        directory, name = os.path.split(snapshot)
        if is_digest(name) and name not in used:
            _remove(snapshot)
            _remove(os.path.join(directory, PACKS, name + PACK_SUFFIX))
            removed += 1
        elif name.startswith(PARTIAL_PREFIX):
            _remove(snapshot)
    for installed in _older(os.path.join(home, "node"), before):
        if os.path.basename(installed) not in used:
            shutil.rmtree(installed, ignore_errors=True)
            removed += 1
    return removed


def _used(home: str, live: Collection[str]) -> Iterator[str]:
    """The snapshots of code and the versions of tarmac that attempts of these runs name."""
    for run_id in live:
        attempts = os.path.join(home, "runs", run_id, "attempts")
        for number in _names(attempts):
            with suppress(Unreadable):
                document = read_document(os.path.join(attempts, number, ATTEMPT_FILE))
                yield os.path.basename(document.code or "")
                yield from (document.settings.sdk or "").split(os.sep)


def _older(directory: str, before: float) -> Iterator[str]:
    """The paths in a directory that were last used before a time."""
    for name in _names(directory):
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # removed since
            if os.lstat(path).st_mtime < before:
                yield path


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
