"""Recognizes whole and truncated files by their content. Called by `select_stable`.

A writer killed at the moment of closing a file looks like one killed before; formats with a verifiable end
show the difference.
"""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tarmac.node.files import untrusted

_MOST_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_MOST_TEXT_BYTES = 1_000_000
_FEW_WORDS = 256
_NEVER_EMPTY = frozenset({".bin", ".ckpt", ".json", ".npy", ".npz", ".pkl", ".pt", ".pth", ".safetensors"})
_ZIP = b"PK\x03\x04"
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
)


def is_complete(path: Path) -> bool:
    """Whether it is a whole zip archive (torch.save, .npz, .keras) with valid sums, safetensors, or JSON.

    Also a few words, as in a file that names the latest checkpoint: they reach the disk at once.
    """
    with suppress(*_UNREADABLE):
        return _is_whole_text(path) or _is_whole_zip(path) or _is_whole_tensors(path)
    return False


def is_cut(path: Path) -> bool:
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
