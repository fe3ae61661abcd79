"""Finds incomplete checkpoints of several files: each present file is whole, but some are missing.

Called by `select_stable`. Frameworks write a checkpoint file by file; between two of them no file is open. If
a framework marks complete checkpoints, its mark decides. A directory is also compared with its siblings: it
is incomplete if it lacks a file that each of them has.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tarmac.artifacts.versions import quiescence
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, Entry
from tarmac.artifacts.versions.quiescence import Found
from tarmac.node.files import untrusted

MARKED_S = 60.0
"""A checkpoint without its framework's mark counts as complete after this time without a change."""

COMPARED_S = 20.0
"""The same for a checkpoint that lacks a file of the others."""

COMMITTED = "commit_success.txt"
"""Orbax writes it just before it gives the directory its name."""

_SAFETENSORS_DRAFT = re.compile(r"\.tmp[0-9A-Za-z]{6}")
_DRAFT = re.compile(r"tmp-.*|\.tmp.{6}|.*\.orbax-checkpoint-tmp.*|.*\.tmp")
_SHARD = re.compile(r"(.*-)\d+-of-(\d+)(\..*)")
_INDEX = ".index.json"
_DCP_MARK = ".metadata"
_TRAINER_STATE = "trainer_state.json"
_TRAINER = re.compile(r"checkpoint-\d+")
_MOST_INDEX_BYTES = 50_000_000
_DIGITS = re.compile(r"\d+")
_RANDOM = re.compile(r"[0-9a-f]{8,}|[0-9a-zA-Z_-]{20,}")

_Times = Mapping[str, int]
"""The files directly in a directory, each with the time of its last change in ns."""


def unmarked(root: Path, found: Sequence[Found], *, now: float) -> set[str]:
    """The checkpoints without their framework's mark: directories, or files of an unnumbered directory."""
    listing = _listing(found)
    alone = _checkpoint_directories(found)
    of_trainer = {path.rpartition("/")[0] for path, times in listing.items() if _TRAINER_STATE in times}
    lacking: set[str] = set()
    for directory, times in listing.items():
        unmarked_groups = list(_without_mark(root / directory, times, numbered=directory in alone))
        is_of_trainer = "training_args.bin" in times or directory.rpartition("/")[0] in of_trainer
        if _TRAINER.fullmatch(_name(directory)) and is_of_trainer and _TRAINER_STATE not in times:
            unmarked_groups.append(times)
        for names in unmarked_groups:
            if max(times[name] for name in names) >= (now - MARKED_S) * 1e9:
                lacking |= {directory} if directory in alone else _in(directory, names)
    drafts = {item.path for item in found if item.kind == DIRECTORY and is_draft(_name(item.path))}
    return lacking | {path for path in drafts if _DIGITS.search(path)}


def unlike(found: Sequence[Found], known: Mapping[str, Entry], *, now: float) -> set[str]:
    """The new checkpoint directories that lack a file which others of their kind have.

    `known` are the entries of the last version: its directories are examples as well.
    """
    files = _files_below(item.path for item in found if item.kind == FILE)
    accepted = _files_below(path for path, entry in known.items() if entry.kind == FILE)
    examples = {path: _kinds(names) for path, names in (accepted | files).items()}
    pointers = [item for item in found if item.kind == FILE and item.target]
    renamed = {item.path for item in found if item.renamed_ns}
    age_s = {path: now - changed_ns / 1e9 for path, changed_ns in _last_changes(found).items()}
    lacking = set()
    for path in _checkpoint_directories(found) - renamed:
        if age_s.get(path, 0.0) > COMPARED_S or quiescence.has_later(path, found):
            continue
        others = _like(path, examples)
        points_before = any(quiescence.names_earlier(pointer, path) for pointer in pointers)
        is_new = path not in accepted or _kinds(accepted[path]) != examples.get(path)
        begins = not others and age_s.get(path, 0.0) < quiescence.QUIET_S and _may_be_of_trainer(path, files)
        if points_before or begins or (is_new and _lacks_file(path, others, examples)):
            lacking.add(path)
    return lacking


def committed(found: Iterable[Found]) -> set[str]:
    """The checkpoints marked as whole by Orbax (a directory) and by DCP of PyTorch (files)."""
    whole: set[str] = set()
    for directory, times in _listing(found).items():
        parts, is_marked = _parts_of_dcp(times)
        if COMMITTED in times and not is_draft(_name(directory)):
            whole.add(directory)
        if parts and is_marked:
            whole |= _in(directory, {_DCP_MARK, *parts})
    return whole


def leftovers(found: Sequence[Found]) -> set[str]:
    """Entries that no version includes: drafts of safetensors, and checkpoint directories without files."""
    filled = {above for item in found if item.kind != DIRECTORY for above in quiescence.parents(item.path)}
    drafts = {item.path for item in found if _SAFETENSORS_DRAFT.fullmatch(_name(item.path))}
    return drafts | (_checkpoint_directories(found) - filled)


def is_draft(name: str) -> bool:
    """Whether a file or directory of this name is a draft, which frameworks rename once it is whole."""
    return _DRAFT.fullmatch(name) is not None


def _checkpoint_directories(found: Iterable[Found]) -> set[str]:
    """The directories with a number in their name, except those that contain others of this form."""
    numbered = {item.path for item in found if item.kind == DIRECTORY and _DIGITS.search(_name(item.path))}
    return numbered - {path.rpartition("/")[0] for path in numbered}


def _without_mark(directory: Path, times: _Times, *, numbered: bool) -> Iterator[Iterable[str]]:
    """The files of each checkpoint in a directory whose framework's mark shows that files are missing.

    DCP of PyTorch writes `.metadata` last, safetensors an index that names its shards. A mark that is older
    than its files belongs to the previous checkpoint.
    """
    parts, is_marked = _parts_of_dcp(times)
    if parts and not is_marked:
        yield parts | ({_DCP_MARK} & times.keys())
    for index in (name for name in times if name.endswith(_INDEX)):
        shards = _shards_of(directory / index)
        there = shards & times.keys()
        if there != shards or any(times[name] > times[index] for name in there):
            yield there | {index}
    numbers: dict[tuple[str, ...], set[str]] = {}
    for match in filter(None, map(_SHARD.fullmatch, times)):
        numbers.setdefault(match.groups(), set()).add(match[0])
    for (stem, total, suffix), shards in numbers.items():
        index = f"{stem[:-1]}{suffix}{_INDEX}"
        needs_index = suffix == ".safetensors" and int(total) > 1
        if len(shards) < int(total) or (needs_index and not _shards_of(directory / index)):
            yield shards | ({index} & times.keys())
    if numbered and any(map(is_draft, times)):
        yield times


def _parts_of_dcp(times: _Times) -> tuple[set[str], bool]:
    """The parts of a checkpoint of DCP, and whether its mark exists and is newer than all of them."""
    parts = {name for name in times if name.endswith(".distcp")}
    return parts, times.get(_DCP_MARK, 0) >= max((times[name] for name in parts), default=0)


def _shards_of(index: Path) -> set[str]:
    """The files in an index of shards; none if it is not such an index."""
    try:
        listed = json.loads(untrusted.read_bytes(str(index), _MOST_INDEX_BYTES))["weight_map"]
        return {str(name) for name in listed.values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _may_be_of_trainer(path: str, files: Mapping[str, set[str]]) -> bool:
    """Whether the first checkpoint of a run has the Trainer's first file, but not its last."""
    names = files.get(path, set())
    return bool(_TRAINER.fullmatch(_name(path))) and "config.json" in names and _TRAINER_STATE not in names


def _like(path: str, examples: Iterable[str]) -> list[str]:
    """The other directories whose path differs only by its numbers."""
    kind = quiescence.kind_of(path)
    return [other for other in examples if other != path and quiescence.kind_of(other) == kind]


def _lacks_file(path: str, others: Sequence[str], examples: Mapping[str, Counter[str]]) -> bool:
    """Whether it has no file at all, or lacks one that each other directory of its kind has."""
    if path not in examples or not others:
        return path not in examples
    common = examples[others[0]]
    for other in others[1:]:
        common = common & examples[other]
    return bool(common - examples[path])


def _kinds(names: Iterable[str]) -> Counter[str]:
    """The number of files of each name without its numbers; random names are left out."""
    return Counter(quiescence.kind_of(name) for name in names if not _RANDOM.search(_name(name)))


def _files_below(paths: Iterable[str]) -> dict[str, set[str]]:
    """The files below each directory, by their relative path."""
    below: dict[str, set[str]] = {}
    for path in paths:
        for above in quiescence.parents(path):
            below.setdefault(above, set()).add(path[len(above) + 1 :])
    return below


def _last_changes(found: Iterable[Found]) -> dict[str, int]:
    """The time of the last change of a file below each directory, in ns."""
    last: dict[str, int] = {}
    for item in found:
        for above in quiescence.parents(item.path) if item.kind == FILE else ():
            last[above] = max(last.get(above, 0), item.mtime_ns)
    return last


def _listing(found: Iterable[Found]) -> dict[str, dict[str, int]]:
    """The files directly in each directory, with their times."""
    listing: dict[str, dict[str, int]] = {}
    for item in found:
        directory, _, name = item.path.rpartition("/")
        if item.kind == FILE:
            listing.setdefault(directory, {})[name] = item.mtime_ns
    return listing


def _in(directory: str, names: Iterable[str]) -> set[str]:
    """The paths of files directly in a directory."""
    return {f"{directory}/{name}" if directory else name for name in names}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
