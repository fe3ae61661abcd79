"""Hook: a fresh copy of the code in the node's working directory. Called by `runner`."""

from __future__ import annotations

import os
from typing import Callable

from tarmac.node import judge, words
from tarmac.node.hooks.asks import leave_if_asked
from tarmac.node.noderun import Leave, NodeRun

_CHUNK_BYTES = 8 * 1024 * 1024


def copy_code(run: NodeRun) -> None:
    """Fill work/; raises Leave when the code cannot be read, or when the attempt is asked to leave."""
    os.makedirs(run.node.work, exist_ok=True)
    if run.part.code is None:
        return

    def between() -> None:
        if run.pulse.glance():
            leave_if_asked(run)

    try:
        _copy_tree(run.part.code, run.node.work, between)
    except OSError as error:
        message = f"the code cannot be copied to {run.part.node}: {error}"
        cause = {"code": words.CODE_UNREADABLE, "message": message, "node": run.part.node}
        run.note_failure(cause)
        raise Leave(judge.Verdict(words.FAILED, run.failure_cause)) from error


def _copy_tree(source: str, target: str, between: Callable[[], None]) -> None:
    """Copy files, links and directories with their modes and times; `between` is called after each piece."""
    with os.scandir(source) as entries:
        for entry in entries:
            to = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), to)
            elif entry.is_dir():
                os.mkdir(to)
                _copy_tree(entry.path, to, between)
                _copy_stat(entry.stat(), to, owner=0o700)
            else:
                _copy_file(entry.path, to, between)
                _copy_stat(entry.stat(), to, owner=0o600)
            between()


def _copy_file(source: str, target: str, between: Callable[[], None]) -> None:
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # In the kernel, and without copying at all where the disk can share blocks.
            while os.sendfile(writing, reading, None, _CHUNK_BYTES):
                between()
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_stat(stat: os.stat_result, target: str, *, owner: int) -> None:
    """Mode and time of the original; what a snapshot protects from writing is the run's own to change."""
    os.chmod(target, (stat.st_mode & 0o777) | owner)
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
