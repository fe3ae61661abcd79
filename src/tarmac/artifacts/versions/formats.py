"""Which files show by their content that all of it is there. Called by `select_stable` for those that seem
torn.

A writer that is struck in the very moment in which it closes a file cannot be told from one that is struck
before; formats that are checked to their end can.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import BinaryIO

from tarmac.node.files import untrusted

_MOST_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_MOST_TEXT_BYTES = 1_000_000
_FEW_WORDS = 256


def is_complete(path: Path) -> bool:
    """Whether it is a whole zip archive (torch.save, .npz, .keras) with right sums, safetensors, or JSON.

    Or a few words, as of a file that names the latest checkpoint: they reach the disk all at once.
    """
    try:
        return _is_whole_text(path) or _is_whole_zip(path) or _is_whole_safetensors(path)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
    ):
        return False


def _is_whole_text(path: Path) -> bool:
    with _opened(path) as file:
        head = file.read(_MOST_TEXT_BYTES + 1)
    try:
        text = head.decode() if len(head) <= _MOST_TEXT_BYTES else ""
        few = 0 < len(text) <= _FEW_WORDS and text.isprintable()
        return few or isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def _is_whole_zip(path: Path) -> bool:
    with _opened(path) as file:
        if not zipfile.is_zipfile(file):
            return False
        archive = zipfile.ZipFile(file)
        return bool(archive.infolist()) and archive.testzip() is None


def _is_whole_safetensors(path: Path) -> bool:
    """A length, a JSON object with the place of each tensor, and as many bytes as those need."""
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
