"""Selects the files of a checkpoint directory for a new version.

Whole files are taken, half-written ones are left out. If a file of the last version is being written again,
its old entry remains, or there is no version until the file is whole. If the only present checkpoint is
half-written, and an earlier one was removed, the earlier one remains in the version.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tarmac.artifacts.versions import assembly, quiescence
from tarmac.artifacts.versions.logs import Logs
from tarmac.artifacts.versions.manifest import FILE, Entry
from tarmac.artifacts.versions.quiescence import Found
from tarmac.node.files import untrusted

DOUBT_S = 5.0
"""Without reports of closings: a file written within this time before a violent end may be half-written."""

ROOM_BYTES = 1 << 20
"""On a disk with less space, a write may just have failed."""


class Unstable(Exception):
    """The directory is changing, or has half-written files: there is no version now."""


class Ending(NamedTuple):
    """The attempt's workers have ended. `clean`: each exited with 0.

    `torn` are the truncated files, each with its size when it was opened; None: unknown. `full`: the disk was
    full at that time, whatever its space now.
    """

    at: float
    clean: bool
    torn: Mapping[str, int] | None = None
    full: bool = False


class Selection(NamedTuple):
    """The files to take, and the entries of the last version that replace others.

    `left_out` are the incomplete files and directories, `growing` the logs taken up to their present end;
    `restless`: more files may follow in a moment.
    """

    taken: tuple[Found, ...]
    carried: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()
    growing: frozenset[str] = frozenset()
    restless: bool = False


class Look(NamedTuple):
    """The content of a directory: `known` are the entries of the last version, `changed` the differing files.

    `full`: its disk is full, so a program may have closed half a file itself.
    """

    root: Path
    found: Sequence[Found]
    known: Mapping[str, Entry]
    changed: Collection[str]
    logs: Logs
    full: bool = False


def select_stable(
    look: Look, *, seen_at: Collection[str], ending: Ending | None = None, torn: Collection[str] = ()
) -> Selection:
    """Decide. `ending` None: the attempt continues; `torn` are the files that its end truncated."""
    found = quiescence.finished(look.found, seen_at=seen_at)
    drafts = assembly.leftovers(found)
    look = look._replace(found=[item for item in found if not quiescence.below(item.path, drafts)])
    whole = _surely_whole(found, seen_at)
    if ending is not None and ending.clean:
        return _at_the_end(look, ending, torn, set())
    now = time.time() if ending is None else ending.at
    incomplete = assembly.unmarked(look.root, found, now=now)
    incomplete |= assembly.unlike(look.found if ending is None else found, look.known, now=now)
    if ending is not None:
        return _at_the_end(look, ending, torn, incomplete - whole)
    loose = [
        item for item in look.found if item.path in look.changed and not quiescence.below(item.path, whole)
    ]
    return _while_it_runs(look, loose, incomplete - whole)


def is_full(directory: str) -> bool:
    """Whether the disk of a directory has almost no space for this user."""
    with suppress(OSError):  # the directory itself was removed
        found = os.statvfs(directory)
        return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize < ROOM_BYTES
    return False


def cut_short(found: Sequence[Found], ending: Ending, *, seen_at: Collection[str]) -> set[str]:
    """The files that the end truncated, or may have: if it was not observed, or the disk was full."""
    torn = set(ending.torn or ())
    if not ending.clean and (ending.torn is None or ending.full):
        torn |= _in_doubt(found, ending.at)
    whole = _surely_whole(found, seen_at) if torn else ()
    return {item.path for item in found if item.path in torn and not quiescence.below(item.path, whole)}


def replace_suspects(
    known: dict[str, Entry], found: Sequence[Found], torn: Collection[str], earlier: Iterable[Sequence[Entry]]
) -> None:
    """Replace possibly torn entries in `known`: the last version may be newer than the death of a writer.

    The entries of `earlier` versions replace them: of the same file with another content, or, if that was the
    only one of its kind, the newest others.
    """
    times = {item.path: item.mtime_ns for item in found if item.path in torn}
    same = [path for path, entry in known.items() if times.get(path) == entry.mtime_ns]
    suspect = {path: known.pop(path) for path in same}
    # A directory may have come with the torn files: an earlier version shows it.
    above = {path for each in suspect for path in quiescence.parents(each) if known.pop(path, None)}
    kinds = set(map(quiescence.kind_of, suspect)) - set(map(quiescence.kind_of, known))
    for entries in earlier if suspect else ():
        others = {entry.path for entry in entries if quiescence.kind_of(entry.path) in kinds} - suspect.keys()
        kinds -= set(map(quiescence.kind_of, others))
        others |= above.union(*map(quiescence.parents, others))
        for entry in entries:
            path = entry.path
            if path in others or (path in suspect and entry.chunks != suspect[path].chunks):
                known.setdefault(path, entry)


def _in_doubt(found: Sequence[Found], now: float) -> set[str]:
    """The files that were written a moment ago, and not renamed since."""
    late = quiescence.changed_since(found, now - DOUBT_S)
    named_at = {item.path: item.renamed_ns for item in found if item.renamed_ns}
    return {item.path for item in found if item.path in late and not _was_renamed(item, named_at)}


def _surely_whole(found: Sequence[Found], seen_at: Collection[str]) -> set[str]:
    """The directories that their program itself marks as whole."""
    return quiescence.linked(found, seen_at=seen_at) | assembly.committed(found)


def _was_renamed(item: Found, named_at: Mapping[str, int]) -> bool:
    """Whether a file, or a directory above it, got its name after the file was written."""
    paths = (item.path, *quiescence.parents(item.path))
    return any(named_at.get(path, -1) >= item.mtime_ns for path in paths)


def _while_it_runs(look: Look, loose: Sequence[Found], incomplete: Collection[str]) -> Selection:
    root, found, known = look.root, look.found, look.known
    moving = quiescence.being_written(loose)
    young = quiescence.changed_since(loose, time.time() - quiescence.QUIET_S)
    doubtful = _in_doubt(loose, time.time()) if look.full else ()
    drop: set[str] = set()
    left_out = set(incomplete)
    growing: set[str] = set()
    carried: list[Entry] = []
    for item in loose:
        old = known.get(item.path)
        if item.path in moving:
            if moving[item.path] or look.logs.has(item):
                growing.add(item.path)
            elif old is None:
                left_out.add(quiescence.unit_of(item, found, known))
            elif _only_grew(root, item, old, pieces=1):
                drop.add(item.path)
                carried.append(old)
            else:
                raise Unstable(f"{item.path} is being written")
        elif item.path in doubtful or _is_cut(root / item.path):
            left_out.add(item.path if old is not None else quiescence.unit_of(item, found, known))
        elif item.path in young and old is None:
            unit = quiescence.unit_of(item, found, known)
            if unit != item.path and not quiescence.has_later(unit, found):
                left_out.add(unit)
    taken = tuple(item for item in found if not quiescence.below(item.path, drop | left_out))
    carried += _predecessors(left_out, taken, known, found)
    restless = bool(left_out) or any(item.path in young - growing for item in taken)
    return Selection(
        taken=taken,
        carried=tuple(carried),
        left_out=tuple(sorted(left_out)),
        growing=frozenset(growing),
        restless=restless,
    )


def _at_the_end(look: Look, ending: Ending, torn: Collection[str], incomplete: Collection[str]) -> Selection:
    root, found, known = look.root, look.found, look.known
    left_out = set(incomplete)
    for item in found:
        cut = item.path in look.changed and not ending.clean and _is_cut(root / item.path)
        if not (cut or item.path in torn) or quiescence.below(item.path, incomplete):
            continue
        old = known.get(item.path)
        opened_bytes = None if ending.torn is None else ending.torn.get(item.path)
        was_cleared = old is not None and opened_bytes is not None and opened_bytes < old.size_bytes
        grew = old is not None and not was_cleared and _only_grew(root, item, old, pieces=len(old.chunks))
        if not cut and (grew or look.logs.has(item, ended=True) or _is_complete(root / item.path)):
            continue
        left_out.add(item.path if old is not None else quiescence.unit_of(item, found, known))
    taken = tuple(item for item in found if not quiescence.below(item.path, left_out))
    carried = _predecessors(left_out, taken, known, found)
    return Selection(taken=taken, carried=tuple(carried), left_out=tuple(sorted(left_out)))


def _predecessors(
    left_out: Collection[str], taken: Sequence[Found], known: Mapping[str, Entry], found: Sequence[Found]
) -> list[Entry]:
    """The entries of the last version in place of checkpoints that are left out.

    These are their own earlier content, or, if no other of their kind is taken, the previous checkpoints. A
    directory with a later sibling is being removed.
    """
    kept: dict[str, Entry] = {}
    for path in left_out:
        kind = quiescence.kind_of(path)
        before = {path} & known.keys()
        if before and quiescence.has_later(path, found):
            continue
        if not before and kind != path and not any(quiescence.kind_of(item.path) == kind for item in taken):
            before = {earlier for earlier in known if quiescence.kind_of(earlier) == kind}
        above = set(quiescence.parents(path)) if before else set()
        kept |= {earlier: entry for earlier, entry in known.items() if quiescence.below(earlier, before)}
        kept |= {parent: known[parent] for parent in above & known.keys()}
    there = {item.path for item in taken}
    return [entry for path, entry in kept.items() if path not in there]


def _only_grew(root: Path, item: Found, old: Entry, *, pieces: int) -> bool:
    """Whether a file was only appended to, judged by its first `pieces` pieces, as logs are."""
    if old.kind != FILE or item.size_bytes < old.size_bytes or not old.chunks:
        return False
    try:
        with _opened(root / item.path) as file:
            for chunk in old.chunks[:pieces]:
                if hashlib.sha256(file.read(chunk.size_bytes)).hexdigest() != chunk.digest:
                    return False
    except OSError:
        return False
    return item.size_bytes > old.size_bytes or pieces >= len(old.chunks)


_MOST_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_MOST_TEXT_BYTES = 1_000_000
_FEW_WORDS = 256
_NEVER_EMPTY = frozenset({".bin", ".ckpt", ".json", ".npy", ".npz", ".pkl", ".pt", ".pth", ".safetensors"})
_ZIP = b"PK\x03\x04"
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile, RuntimeError, EOFError)


def _is_complete(path: Path) -> bool:
    """Whether it is a whole zip archive (torch.save, .npz, .keras) with valid sums, safetensors, or JSON.

    Also a few words, as in a file that names the latest checkpoint: they reach the disk at once.
    """
    with suppress(*_UNREADABLE):
        return _is_whole_text(path) or _is_whole_zip(path) or _is_whole_tensors(path)
    return False


def _is_cut(path: Path) -> bool:
    """Whether the file is a zip archive, safetensors or a JSON document without its end: a failed save.

    Also an empty file with the name of a checkpoint: that save failed before its first byte.
    """
    with suppress(*_UNREADABLE):
        with _opened(path) as file:
            head = file.read(len(_ZIP))
            if not head:
                return path.suffix in _NEVER_EMPTY
            if head == _ZIP:
                return not zipfile.is_zipfile(file)
        if path.suffix == ".json" and head.lstrip()[:1] in (b"{", b"["):
            return not _is_whole_text(path, few_words=0) and not _ends_like_json(path)
        return path.suffix == ".safetensors" and not _is_whole_tensors(path)
    return False


def _ends_like_json(path: Path) -> bool:
    with _opened(path) as file:
        file.seek(-min(_FEW_WORDS, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read().rstrip()[-1:] in (b"}", b"]")


def _is_whole_text(path: Path, *, few_words: int = _FEW_WORDS) -> bool:
    with _opened(path) as file:
        head = file.read(_MOST_TEXT_BYTES + 1)
    try:
        text = head.decode() if len(head) <= _MOST_TEXT_BYTES else ""
        few = 0 < len(text) <= few_words and text.isprintable()
        return few or isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def _is_whole_zip(path: Path) -> bool:
    with _opened(path) as file:
        if not zipfile.is_zipfile(file):
            return False
        archive = zipfile.ZipFile(file)
        return bool(archive.infolist()) and archive.testzip() is None


def _is_whole_tensors(path: Path) -> bool:
    """A length, a JSON object with the place of each tensor, and the required number of bytes."""
    with _opened(path) as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 2 <= length <= _MOST_HEADER_BYTES:
            return False
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            return False
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        size = file.seek(0, os.SEEK_END)
    return bool(ends) and size == _LENGTH_BYTES + length + max(ends)


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(untrusted.open_to_read(str(path)), "rb")
