"""What was cleared up of attempts of ended runs, said in words. Called by engines.

`node/attempt/clearing.py` clears, where the attempts lie. The run could have written the file that says what
is gone: only numbers are taken from it.
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
    """The runs that have left something."""
    return clearing.remains(str(layout.runs))


def clear(layout: Layout, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
    """Remove what a run worked in, and its logs. See `node.attempt.clearing`."""
    return clearing.clear(str(layout.runs / run_id), work_days=work_days, log_days=log_days)


def remove(layout: Layout, run_id: str) -> None:
    """Remove all that a run left."""
    clearing.remove(str(layout.home), run_id)


def cleared_notices(directory: Path, node: str) -> Iterator[Notice]:
    """One for each kind of thing that is gone."""
    path = directory / CLEARED_FILE
    try:
        record, at = untrusted.read_object(str(path)), path.lstat().st_mtime
    except (OSError, ValueError):
        return  # nothing was
    for what, sentence in _SENTENCES.items():
        days = record.get(what)
        if isinstance(days, int | float) and days >= 0:
            yield Notice(at=at, node=node, text=sentence.format("1 day" if days == 1 else f"{days:g} days"))
