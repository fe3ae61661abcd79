"""Removes files of ended runs and unused copies on a disk. Called by engines, and on their hosts.

After the end of a run its working directories are removed first, its logs later; events, metrics and
artifacts remain. A file beside them lists the removed parts (`CLEARED_FILE`). Copies at a site are snapshots
of code and older versions of tarmac: the engine copies them again if an attempt needs them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Optional

from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import Unreadable, read_document
from tarmac.node.files import untrusted
from tarmac.node.files.codestore import PACK_SUFFIX, PACKS, PARTIAL_PREFIX, is_digest, packs_of

_SCRATCH = frozenset({protocol.WORK, protocol.VENV, protocol.FILES})
_SIGNALS = frozenset({protocol.WAKE_FIFO, protocol.HEARTBEAT_FILE})
"""Files that only a runner uses."""

_DAY_S = 86_400.0


def remains(runs: str) -> list[str]:
    """The entries of a directory, such as the runs with files in one of runs; none if it is missing."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(runs)
    return []


def clear(run: str, *, work_days: Optional[float], log_days: Optional[float]) -> int:
    """Remove a run's working directories and logs, each after its number of days since the end of the run.

    `run` is its directory. Returns the number of attempts with removed files.
    """
    cleared = 0
    for attempt in _directories(f"{run}/attempts"):
        removed: dict[str, float] = {}
        if work_days is not None and _clear_scratch(attempt):
            removed["work"] = work_days
        if log_days is not None and untrusted.discard_tree(f"{attempt}/{protocol.LOGS}"):
            removed["logs"] = log_days
        if removed:
            _note(attempt, removed)
            cleared += 1
    if work_days is not None:
        _remove_empty(Path(run) / "artifacts")
    return cleared


def remove(home: str, run_id: str) -> None:
    """Remove all files of a run below a home, if there are any. Raises OSError."""
    for directory in (f"{home}/runs", *_directories(f"{home}/disks")):
        with suppress(FileNotFoundError):
            untrusted.remove_tree(f"{directory}/{run_id}")


def _clear_scratch(attempt: str) -> bool:
    """Remove the working directories of an attempt; returns whether there were any."""
    removed = False
    for node in _directories(f"{attempt}/{protocol.NODES}"):
        for path in _directories(node):
            removed = (Path(path).name in _SCRATCH and untrusted.discard_tree(path)) or removed
        with suppress(OSError):
            for item in Path(node).iterdir():
                if item.name in _SIGNALS or item.name.startswith(protocol.POLL_PREFIX):
                    item.unlink()
    return removed


def _remove_empty(artifacts: Path) -> None:
    """Remove the artifact directories that are empty."""
    with suppress(OSError):  # a directory with content stays, and so do its parents
        if not artifacts.is_symlink():
            for kind in protocol.ARTIFACT_KINDS:
                with suppress(OSError):
                    (artifacts / kind).rmdir()
            artifacts.rmdir()


def _note(attempt: str, removed: dict[str, float]) -> None:
    """Record the removed parts, and after how many days."""
    path = f"{attempt}/{protocol.CLEARED_FILE}"
    with suppress(OSError):
        untrusted.replace(path, json.dumps({**untrusted.object_at(path), **removed}).encode())


def _directories(path: str) -> Iterator[str]:
    """The directories in one that is not itself a link: a run could link to another user's directory."""
    if not os.path.islink(path):
        with suppress(OSError), os.scandir(path) as found:
            yield from [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]


def use(path: str) -> bool:
    """Whether the path exists; if so, its time of last use is set to now."""
    with suppress(FileNotFoundError):
        os.utime(path)
        return True
    return False


def clear_copies(home: str, live: Collection[str], *, unused_days: float, version: str) -> int:
    """Remove copies unused for `unused_days` that no attempt of the live runs needs; returns their number.

    `version` is the tarmac of new attempts, and stays.
    """
    before, code = time.time() - unused_days * _DAY_S, os.path.join(home, "code")
    used = {version, *used_copies(home, live)}
    old = list(_older(code, before))
    unused = {os.path.basename(path) for path in old} - used
    used |= {
        part for name in remains(code) if name not in unused for part in packs_of(os.path.join(code, name))
    }
    removed = 0
    for snapshot in old:
        directory, name = os.path.split(snapshot)
        if is_digest(name) and name not in used:
            Path(snapshot).unlink(missing_ok=True)
            Path(os.path.join(directory, PACKS, name + PACK_SUFFIX)).unlink(missing_ok=True)
            removed += 1
        elif name.startswith(PARTIAL_PREFIX):
            Path(snapshot).unlink(missing_ok=True)
    for installed in _older(os.path.join(home, "node"), before):
        if os.path.basename(installed) not in used:
            shutil.rmtree(installed, ignore_errors=True)
            removed += 1
    return removed


def used_copies(home: str, live: Collection[str]) -> Iterator[str]:
    """The snapshots of code and the versions of tarmac that attempts of these runs name."""
    for run_id in live:
        attempts = os.path.join(home, "runs", run_id, "attempts")
        for number in remains(attempts):
            with suppress(Unreadable):
                document = read_document(os.path.join(attempts, number, protocol.ATTEMPT_FILE))
                yield os.path.basename(document.code or "")
                yield from (document.settings.sdk or "").split(os.sep)


def _older(directory: str, before: float) -> Iterator[str]:
    """The paths in a directory that were last used before a time."""
    for name in remains(directory):
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # removed since
            if os.lstat(path).st_mtime < before:
                yield path
