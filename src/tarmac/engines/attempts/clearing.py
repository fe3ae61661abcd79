"""Clears attempts of ended runs, and describes the cleared parts in notices. Called by engines and views.

`node/attempt/clearing.py` clears, on the machine of the attempts. The run may have written the file that
lists cleared parts, so only its numbers are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.model.ports import Notice
from tarmac.node.attempt import clearing
from tarmac.node.attempt.protocol import CLEARED_FILE
from tarmac.node.files import untrusted

_SENTENCES = {
    "work": "its work directories, and what was installed for it, were removed {} after its end",
    "logs": "its logs were removed {} after its end",
}


def remains(layout: Layout) -> Collection[str]:
    """The runs with remaining files."""
    return clearing.remains(str(layout.runs))


def clear(layout: Layout, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
    """Remove a run's working directories and logs. See `node.attempt.clearing`."""
    return clearing.clear(str(layout.runs / run_id), work_days=work_days, log_days=log_days)


def remove(layout: Layout, run_id: str) -> None:
    """Remove all files of a run."""
    clearing.remove(str(layout.home), run_id)


def cleared_notices(directory: Path, node: str) -> Iterator[Notice]:
    """One notice for each kind of cleared files."""
    path = directory / CLEARED_FILE
    try:
        record, at = untrusted.read_object(str(path)), path.lstat().st_mtime
    except (OSError, ValueError):
        return  # nothing was cleared
    for what, sentence in _SENTENCES.items():
        days = record.get(what)
        if isinstance(days, int | float) and days >= 0:
            yield Notice(at=at, node=node, text=sentence.format("1 day" if days == 1 else f"{days:g} days"))
