"""Hook: a fresh copy of the code in each working directory of the node. Called by `runner`.

A snapshot lists a tree; packs beside it hold the contents. A run may change files in its working directory,
so every file there is a copy, never a link into the snapshot.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import Any, BinaryIO, Callable, Dict, List, Tuple

from tarmac.node.attempt import words
from tarmac.node.files import untrusted
from tarmac.node.files.codestore import PACKS
from tarmac.node.kernel.handles import closing
from tarmac.node.noderun import NodeRun

_CHUNK_BYTES = 8 * 1024 * 1024


def copy_code(run: NodeRun) -> None:
    """Fill each working directory; raises Leave if that fails, or on a request to leave."""
    for directory in run.directories:
        untrusted.make_directory(directory)
    if run.document.code is None:
        return

    def between() -> None:
        if run.wake_channel.poll():
            run.check_leave()

    try:
        for directory in run.directories:
            make_tree(run.document.code, directory, between)
    except (OSError, ValueError) as error:
        untrusted.discard_tree(run.node.work)  # on a full disk the runner could not even report the failure
        os.makedirs(run.node.work, exist_ok=True)
        message = f"the code cannot be copied to {run.node_name}: {error}"
        raise run.fail(run.cause(words.CODE_UNREADABLE, message)) from error


def make_tree(snapshot: str, target: str, between: Callable[[], None]) -> None:
    """Make a snapshot's directories and files, then its links, so no file is written through a link."""
    packs: Dict[str, BinaryIO] = {}
    links: List[Tuple[str, str]] = []
    directories: List[Tuple[str, int]] = []
    with ExitStack() as stack:
        lines = stack.enter_context(open(snapshot, encoding="ascii"))
        next(lines)
        for line in lines:
            entry = json.loads(line)
            to = _inside(target, entry[2])
            if entry[0] == "d":
                os.mkdir(to, 0o700)
                directories.append((to, entry[1]))
            elif entry[0] == "l":
                links.append((to, entry[1]))
            else:
                pack = entry[3]
                if pack not in packs:
                    path = os.path.join(os.path.dirname(snapshot), PACKS, os.path.basename(pack))
                    packs[pack] = stack.enter_context(open(path, "rb"))
                _make_file(packs[pack].fileno(), entry, to, between)
            between()
    for to, destination in links:
        os.symlink(destination, to)
    for to, mode in reversed(directories):
        os.chmod(to, mode | 0o700)


def _make_file(reading: int, entry: List[Any], to: str, between: Callable[[], None]) -> None:
    _, mode, _, pack, offset, size_bytes, dated_ns = entry
    with closing(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)) as writing:
        end = offset + size_bytes
        while offset < end:
            sent = os.sendfile(writing, reading, offset, min(end - offset, _CHUNK_BYTES))
            if sent == 0:
                raise ValueError(f"{pack} ends before {entry[2]} does")
            offset += sent
            between()
        os.fchmod(writing, mode | 0o600)
        os.utime(writing, ns=(dated_ns, dated_ns))


def _inside(target: str, path: str) -> str:
    """The target of a path of the snapshot, checked again: the store did so, but it costs little."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} leads out of the directory")
    return os.path.join(target, path)
