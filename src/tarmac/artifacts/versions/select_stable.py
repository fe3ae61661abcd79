"""Selects the files of a checkpoint directory that go into a version now.

Whole files are taken, half-written ones are left out. Where a file of the last version is being written
again, its old entry stays, or there is no version until the file is whole.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions import formats, logs, quiescence
from tarmac.artifacts.versions.manifest import FILE, Entry
from tarmac.artifacts.versions.quiescence import Found
from tarmac.node.files import untrusted

DOUBT_S = 5.0
"""Where closings were not watched: a file written so shortly before a violent end may be half-written."""


class Unstable(Exception):
    """The directory is changing, or holds half-written files: there is no version now."""


class Ending(NamedTuple):
    """The attempt's workers have ended. `clean`: each of them left with 0.

    `torn` are the files that were cut short; None: not known.
    """

    at: float
    clean: bool
    torn: frozenset[str] | None = None


class Selection(NamedTuple):
    """The files to take, and the entries of the last version that replace others.

    `left_out` are the files and directories that are not whole, `growing` the logs that are taken as far as
    they go; `restless`: more may follow in a moment.
    """

    taken: tuple[Found, ...]
    carried: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()
    growing: frozenset[str] = frozenset()
    restless: bool = False


def select_stable(
    root: Path,
    found: Sequence[Found],
    *,
    seen_at: Collection[str],
    known: Mapping[str, Entry],
    changed: Collection[str],
    torn: Collection[str] | None,
) -> Selection:
    """Decide. `known` are the entries of the last version, `changed` the files that differ from it.

    `torn` are the files that the end cut short, as `cut_short` says; None: the attempt goes on.
    """
    left = quiescence.unfinished(found, seen_at=seen_at)
    found = [item for item in found if not quiescence.below(item.path, left)]
    if torn is not None:
        return _at_the_end(root, found, [item for item in found if item.path in torn], known)
    whole = quiescence.linked(found, seen_at=seen_at)
    loose = [item for item in found if item.path in changed and not quiescence.below(item.path, whole)]
    return _while_it_runs(root, found, loose, known)


def cut_short(found: Sequence[Found], ending: Ending, *, seen_at: Collection[str]) -> set[str]:
    """The files that the end cut short; where nobody saw it, those that it may have.

    Those were written shortly before it, and not renamed since. That a version holds one says nothing: it may
    have been made after the death of the writer.
    """
    if ending.torn is not None:
        torn: Collection[str] = ending.torn
    elif ending.clean:
        return set()
    else:
        late = quiescence.changed_since(found, ending.at - DOUBT_S)
        torn = {item.path for item in found if item.path in late and item.changed_ns <= item.mtime_ns}
    whole = quiescence.linked(found, seen_at=seen_at) if torn else ()
    return {item.path for item in found if item.path in torn and not quiescence.below(item.path, whole)}


def _while_it_runs(
    root: Path, found: Sequence[Found], loose: Sequence[Found], known: Mapping[str, Entry]
) -> Selection:
    moving = quiescence.being_written(loose)
    young = quiescence.changed_since(loose, time.time() - quiescence.QUIET_S)
    drop: set[str] = set()
    left_out: set[str] = set()
    growing: set[str] = set()
    carried: list[Entry] = []
    for item in loose:
        old = known.get(item.path)
        if item.path in moving:
            if moving[item.path] or logs.is_log(root / item.path):
                growing.add(item.path)
            elif old is None:
                left_out.add(quiescence.unit_of(item, found, known))
            elif _only_grew(root, item, old, pieces=1):
                drop.add(item.path)
                carried.append(old)
            else:
                raise Unstable(f"{item.path} is being written")
        elif item.path in young and old is None:
            unit = quiescence.unit_of(item, found, known)
            if unit != item.path and not quiescence.has_later(unit, found):
                left_out.add(unit)
    taken = tuple(item for item in found if not quiescence.below(item.path, drop | left_out))
    restless = bool(left_out) or any(item.path in young - growing for item in taken)
    return Selection(
        taken=taken,
        carried=tuple(carried),
        left_out=tuple(sorted(left_out)),
        growing=frozenset(growing),
        restless=restless,
    )


def _at_the_end(
    root: Path, found: Sequence[Found], torn: Sequence[Found], known: Mapping[str, Entry]
) -> Selection:
    left_out: set[str] = set()
    carried: list[Entry] = []
    for item in torn:
        old = known.get(item.path)
        grew = old is not None and _only_grew(root, item, old, pieces=len(old.chunks))
        if grew or logs.is_log(root / item.path) or formats.is_complete(root / item.path):
            continue
        left_out.add(item.path if old is not None else quiescence.unit_of(item, found, known))
        carried += [old] if old is not None else []
    taken = tuple(item for item in found if not quiescence.below(item.path, left_out))
    return Selection(taken=taken, carried=tuple(carried), left_out=tuple(sorted(left_out)))


def _only_grew(root: Path, item: Found, old: Entry, *, pieces: int) -> bool:
    """Whether a file was only appended to, as far as so many of its first pieces tell: a log does so."""
    if old.kind != FILE or item.size_bytes < old.size_bytes:
        return False
    if not old.chunks:
        return False
    try:
        with os.fdopen(untrusted.open_to_read(str(root / item.path)), "rb") as file:
            for chunk in old.chunks[:pieces]:
                if hashlib.sha256(file.read(chunk.size_bytes)).hexdigest() != chunk.digest:
                    return False
    except OSError:
        return False
    return item.size_bytes > old.size_bytes or pieces >= len(old.chunks)
