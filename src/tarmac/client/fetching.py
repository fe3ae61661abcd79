"""Fetches an artifact into a directory: piece by piece, each checked, resuming after an interruption.

Called by `tarmac artifacts get`. A file gets its name once it is complete; links come last.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tarmac import api
from tarmac.client.resource_calls import ResourceCalls
from tarmac.model.errors import InvalidInput, Unavailable

PART = ".part"

Progress = Callable[[int], None]
"""Called with the number of further bytes fetched."""


def fetch(
    client: ResourceCalls,
    entries: Sequence[api.ArtifactEntry],
    target: Path,
    progress: Progress = lambda _: None,
) -> None:
    """Fetch every entry below `target`. Raises InvalidInput for a path outside it."""
    target.mkdir(parents=True, exist_ok=True)
    root = target.resolve()
    for entry in sorted(entries, key=lambda entry: entry.kind == "link"):
        path = _inside(root, entry.path)
        (path if entry.kind == "directory" else path.parent).mkdir(parents=True, exist_ok=True)
        if entry.kind == "file":
            _fetch_file(client, entry, path, progress)
        elif entry.kind == "link":
            link = entry.target
            if entry.inside:  # a relative link works wherever the directory is moved
                link = os.path.relpath(root / link, path.parent)
            path.unlink(missing_ok=True)
            path.symlink_to(link)


def selected(entries: Sequence[api.ArtifactEntry], path: str | None) -> Sequence[api.ArtifactEntry]:
    """The entries at a path of the artifact or below it; raises InvalidInput if there are none."""
    if path is None:
        return entries
    prefix = path.strip("/")
    found = [entry for entry in entries if entry.path == prefix or entry.path.startswith(f"{prefix}/")]
    if not found:
        known = sorted({entry.path.split("/")[0] for entry in entries})
        raise InvalidInput(f"the artifact holds no {path!r}", hint=f"at its top: {', '.join(known[:10])}")
    return found


def _fetch_file(client: ResourceCalls, entry: api.ArtifactEntry, path: Path, progress: Progress) -> None:
    if _is_whole(entry, path):
        progress(entry.bytes)
        return
    part = path.with_name(path.name + PART)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(part, flags, 0o600), "r+b") as file:
        for piece in entry.pieces:
            at = file.tell()
            if _digest(file.read(piece.bytes)) != piece.digest:
                data = client.artifact_piece(piece.digest)
                if _digest(data) != piece.digest:
                    raise Unavailable(f"{entry.path} arrived damaged", hint="try again")
                file.seek(at)
                file.write(data)
                file.flush()
            progress(piece.bytes)
        file.truncate(entry.bytes)
    part.chmod(entry.mode)
    os.utime(part, ns=(entry.mtime_ns, entry.mtime_ns))
    if path.is_dir() and not path.is_symlink():
        raise InvalidInput(f"{path} is a directory", hint="fetch into an empty one")
    part.replace(path)


def _is_whole(entry: api.ArtifactEntry, path: Path) -> bool:
    """Whether the complete file already exists."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != entry.bytes:
        return False
    with path.open("rb") as file:
        return all(_digest(file.read(piece.bytes)) == piece.digest for piece in entry.pieces)


def _inside(root: Path, path: str) -> Path:
    """The entry's path below the root; raises InvalidInput if any part leads elsewhere."""
    parts = path.split("/")
    if {"", ".", ".."} & set(parts) or "\0" in path:
        raise InvalidInput(f"{path!r} would lie outside {root}")
    place = root.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(root):
        raise InvalidInput(f"{path!r} would lie outside {root}: a link leads there")
    return place


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
