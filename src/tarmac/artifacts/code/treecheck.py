"""Checks a tree from elsewhere by its names alone, before any of it is stored.

Called for archives and for trees that clients send. Nothing here accesses a disk: the tree is checked in its
later form, links included.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from tarmac.artifacts.code.tree import Entry, Kind

MOST_ENTRIES = 500_000
DEEPEST = 128
_LONGEST_NAME_BYTES = 255
_LONGEST_PATH_BYTES = 4_000
_LINKS_FOLLOWED = 40


def refusals(entries: Sequence[Entry]) -> list[str]:
    """All problems of a tree: names that lead out, clashes, links that leave it."""
    if len(entries) > MOST_ENTRIES:
        return [f"holds {len(entries):,} files and directories, more than the {MOST_ENTRIES:,} allowed"]
    found = [problem for entry in entries if (problem := refusal_of_name(entry.path)) is not None]
    return found or [*_clashes(entries), *_escapes(entries)]


def refusal_of_name(path: str) -> str | None:
    """The problem of a path in a tree, if there is one."""
    parts = path.split("/")
    shown = _shown(path)
    if not path or path.startswith("/"):
        return f"{shown} is not a relative name"
    if "\0" in path:
        return f"{shown} holds a zero byte"
    if ".." in parts:
        return f"{shown} leads out of the directory"
    if "" in parts or "." in parts:
        return f"{shown} is not a plain name"
    if len(parts) > DEEPEST:
        return f"{shown} lies deeper than {DEEPEST} directories"
    try:
        encoded = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        return f"{shown} is not a name that a file can have"
    if max(encoded) > _LONGEST_NAME_BYTES or sum(encoded) + len(parts) > _LONGEST_PATH_BYTES:
        return f"{shown} is longer than a name may be"
    return None


def _clashes(entries: Sequence[Entry]) -> Iterator[str]:
    kinds: dict[str, Kind] = {}
    for entry in entries:
        if entry.path in kinds:
            yield f"{_shown(entry.path)} is there twice"
        kinds[entry.path] = entry.kind
    for entry in entries:
        above = entry.path.rpartition("/")[0]
        if above and kinds.get(above) is not Kind.DIRECTORY:
            found = "is not in the list" if above not in kinds else f"is a {kinds[above]}"
            yield f"{_shown(entry.path)} lies in {_shown(above)}, which {found}"


def _escapes(entries: Sequence[Entry]) -> Iterator[str]:
    links = {entry.path: entry.target for entry in entries if entry.kind is Kind.LINK}
    for path, target in links.items():
        if not target or "\0" in target or len(target.encode("utf-8", "replace")) > _LONGEST_PATH_BYTES:
            yield f"{_shown(path)} is a symbolic link to no possible name"
        elif _leaves(posixpath.dirname(path), target, links):
            yield f"{_shown(path)} is a symbolic link that leaves the directory: {_shown(target)}"


def _leaves(directory: str, target: str, links: dict[str, str]) -> bool:
    """Whether a link in `directory` leads out of the tree, as written or through other links.

    A chain longer than the kernel follows leads nowhere.
    """
    if target.startswith("/"):
        return True
    written = posixpath.normpath(posixpath.join(directory, target))
    if written == ".." or written.startswith("../"):
        return True
    at = directory.split("/") if directory else []
    ahead = target.split("/")[::-1]
    followed = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        at.append(part)
        inner = links.get("/".join(at))
        if inner is not None:
            followed += 1
            if inner.startswith("/"):
                return True
            if followed > _LINKS_FOLLOWED:
                return False  # the kernel stops as well: it leads nowhere
            at.pop()
            ahead += inner.split("/")[::-1]
    return False


def _shown(path: str) -> str:
    return repr(path if len(path) <= 120 else f"{path[:60]}...{path[-50:]}")
