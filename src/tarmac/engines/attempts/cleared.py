"""What was cleared up of an attempt since its run ended, in words. Called by engines.

`server/storage/attempt_cleaner.py` writes the file. The run could have: only numbers are taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tarmac.model.ports import Notice
from tarmac.node.attempt.protocol import CLEARED_FILE
from tarmac.node.files import untrusted

_SENTENCES = {
    "work": "its work directories, and what was installed for it, were removed {} after its end",
    "logs": "its logs were removed {} after its end",
}


def cleared_notices(directory: Path, node: str) -> Iterator[Notice]:
    """One for each kind of thing that is gone."""
    path = directory / CLEARED_FILE
    try:
        told, at = untrusted.read_object(str(path)), path.lstat().st_mtime
    except (OSError, ValueError):
        return  # nothing was
    for what, sentence in _SENTENCES.items():
        days = told.get(what)
        if isinstance(days, int | float) and days >= 0:
            yield Notice(at=at, node=node, text=sentence.format("1 day" if days == 1 else f"{days:g} days"))
