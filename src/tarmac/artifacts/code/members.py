"""One member of an archive, whatever the format. Made by `zipfiles` and `tarfiles` for `archives`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tarmac.artifacts.code.tree import Kind


class Bad(Exception):
    """The archive as a whole is refused; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, directory or link in an archive. `refused` says why it is none of these.

    `path` is as it stands there, less `./` in front and `/` behind; empty for the archive's own top.
    `content` gives a file's pieces, once, while the member is the current one.
    """

    path: str
    kind: Kind = Kind.FILE
    mode: int = 0o644
    size_bytes: int = 0
    mtime_ns: int = 0
    target: str = ""
    refused: str | None = None
    content: Callable[[], Iterable[bytes]] = tuple


def plain(name: str) -> str:
    """A name as archives write it, as a path in the tree; what is wrong with it stays in it."""
    while name.startswith("./"):
        name = name[2:].lstrip("/") if name[2:3] == "/" else name[2:]
    return "" if name in (".", "./") else name.removesuffix("/")
