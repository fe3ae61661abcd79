"""`SiteFiles` over a directory of this machine. Used by the unit tests of what engines for sites share."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections import Counter
from pathlib import Path
from typing import IO

from tarmac.engines.sites.wire import PART_BYTES, RemoteEntry
from tarmac.node.files import untrusted


class LocalFiles:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.sends = True

    def listing(self, directory: str, *, recursive: bool = False) -> list[RemoteEntry] | None:
        self.calls["listing"] += 1
        root = Path(directory)
        if not root.is_dir():
            return None
        return [_entry(path, root) for path in (root.rglob("*") if recursive else root.iterdir())]

    def read(self, path: str, *, offset: int, limit: int) -> bytes | None:
        self.calls["read"] += 1
        try:
            content = Path(path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return None
        return content[offset if offset >= 0 else max(0, len(content) + offset) :][:limit]

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        assert len(content) <= PART_BYTES
        self.calls["write"] += 1
        untrusted.replace(path, content, mode=0o600 if private else 0o644)

    def send(self, path: str, content: IO[bytes], *, size_bytes: int, digest: str) -> bool:
        """In place, if it `sends`; else half of it arrives."""
        self.calls["send"] += 1
        data = content.read(size_bytes if self.sends else size_bytes // 2)
        Path(path).write_bytes(data)
        return hashlib.sha256(data).hexdigest() == digest

    def create(self, path: str, content: bytes) -> bytes:
        try:
            untrusted.publish(path, content)
        except FileExistsError:
            return Path(path).read_bytes()
        return content

    def make_directory(self, path: str, *, private: bool = False) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        if private:
            Path(path).chmod(0o700)

    def remove(self, path: str) -> None:
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)


def _entry(path: Path, root: Path) -> RemoteEntry:
    facts = os.lstat(path)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(facts.st_mode), "other")
    return RemoteEntry(str(path.relative_to(root)), kind, facts.st_size, float(int(facts.st_mtime)))
