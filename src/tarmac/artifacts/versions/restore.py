"""Fills an artifact directory with whole versions from the store; repairs it at the end.

Every piece is checked against its digest; links come last, so that nothing is ever written through one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.listed import read_chunk
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, LINK, Entry, Manifest
from tarmac.node.attempt.protocol import TORN, UNFINISHED

THREADS = 4

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def fill(blobs: Blobs, manifests: Sequence[Manifest], root: Path, *, seen_at: str) -> None:
    """Make `root` hold exactly these versions. `seen_at` is the path under which programs know it.

    The directory itself remains: it may be mounted elsewhere. May be interrupted at any point and repeated.
    """
    clear(root)
    entries = {entry.path: entry for manifest in manifests for entry in manifest.entries}
    with ThreadPoolExecutor(THREADS) as pool:
        for entry in entries.values():
            path = root / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.kind == DIRECTORY:
                path.mkdir(exist_ok=True)
            elif entry.kind == FILE:
                _fill_file(blobs, entry, path, pool)
    for entry in entries.values():
        if entry.kind == LINK:
            (root / entry.path).symlink_to(_target(entry, seen_at))
    for entry in reversed(entries.values()):
        if entry.kind == DIRECTORY:
            (root / entry.path).chmod(entry.mode | 0o700)


def mend(blobs: Blobs, root: Path, *, seen_at: str, torn: Sequence[str], put_back: Sequence[Entry]) -> None:
    """Move truncated files away, and put the content of the last version in their place.

    The moved files remain in `.torn` until the next time: they may be useful to a person, never to a program.
    """
    aside = root / TORN
    shutil.rmtree(aside, ignore_errors=True)
    drafts = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for number, entry in enumerate(put_back):
            if entry.kind == FILE:
                drafts[entry.path] = draft = root / f"{UNFINISHED}back.{number}"
                draft.unlink(missing_ok=True)
                _fill_file(blobs, entry, draft, pool)
    for path in torn:
        if os.path.lexists(root / path):
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).replace(aside / path)
    for entry in sorted(put_back, key=lambda entry: entry.path):
        place = root / entry.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == FILE:
            drafts[entry.path].replace(place)
        elif entry.kind == DIRECTORY:
            place.mkdir(exist_ok=True)
        elif entry.kind == LINK:
            place.symlink_to(_target(entry, seen_at))


def clear(root: Path) -> None:
    """Remove everything in a directory."""
    root.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _target(entry: Entry, seen_at: str) -> str:
    """The target of a link, for programs that know the directory by the path `seen_at`."""
    return os.path.join(seen_at, entry.target) if entry.inside else entry.target  # noqa: PTH118


def _fill_file(blobs: Blobs, entry: Entry, path: Path, pool: ThreadPoolExecutor) -> None:
    handle = os.open(path, _WRITE_NEW, 0o600)
    try:
        starts = [0]
        for chunk in entry.chunks:
            starts.append(starts[-1] + chunk.size_bytes)

        def write(number: int) -> None:
            data = read_chunk(blobs, entry.chunks[number])
            while data:
                written = os.pwrite(handle, data, starts[number])
                starts[number] += written
                data = data[written:]

        futures = [pool.submit(write, number) for number in range(len(entry.chunks))]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()
        os.fchmod(handle, entry.mode)
        os.utime(handle, ns=(entry.mtime_ns, entry.mtime_ns))
    finally:
        os.close(handle)
