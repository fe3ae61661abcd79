"""A member of an archive of any format. Made by `zipfiles` and `tarfiles` for `archives`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tarmac.artifacts.code.tree import Kind


class Bad(Exception):
    """The whole archive is refused; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, directory or link in an archive. `refused` is the reason if it is none of these.

    `path` is the recorded one, without `./` in front and `/` behind; empty for the archive's own top.
    `content` returns a file's pieces, once, while the member is the current one.
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
    """A name in an archive as a path in the tree; its errors remain."""
    while name.startswith("./"):
        name = name[2:].lstrip("/") if name[2:3] == "/" else name[2:]
    return "" if name in (".", "./") else name.removesuffix("/")
