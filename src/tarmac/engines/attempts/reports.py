"""Reads attempt directories for requests: reports of workers (made through the SDK), entries, cleared files.

Called by every engine. `node/attempt/clearing.py` clears the files of ended runs. The run may have written
the file that lists cleared parts, so only its numbers are used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.view import AttemptView
from tarmac.model.abilities import FileEntry, ReportPiece
from tarmac.model.progress import Notice
from tarmac.node.attempt.protocol import CLEARED_FILE, LONGEST_REPORTS_BYTES
from tarmac.node.files import untrusted


def report_pieces(view: AttemptView, known: Mapping[str, int], limit_bytes: int) -> Iterator[ReportPiece]:
    """The complete lines of each node's file from a position."""
    for node in view.nodes:
        begin = known.get(node.node, 0)
        room = min(limit_bytes, LONGEST_REPORTS_BYTES - begin)
        with suppress(OSError):
            content = untrusted.read_part(node.paths.reports, begin, room) if room > 0 else b""
            if (piece := whole_lines(content, begin)) is not None:
                yield ReportPiece(node=node.node, begin=begin, end=piece[1], content=piece[0])


def whole_lines(content: bytes, begin: int) -> tuple[bytes, int] | None:
    """The complete lines at the beginning of the content, and their end; an overlong line is skipped."""
    lines = content[: content.rfind(b"\n") + 1]
    if lines:
        return lines, begin + len(lines)
    return (b"", begin + len(content)) if len(content) > untrusted.LONGEST_LINE_BYTES else None


def file_entries(found: Iterable[Sequence[Any]]) -> list[FileEntry]:
    """The entries of `node/files/untrusted.py` as records."""
    return [
        FileEntry(name=str(name), kind=str(kind), size_bytes=int(size_bytes), modified_at=float(modified_at))
        for name, kind, size_bytes, modified_at in found
    ]


_SENTENCES = {
    "work": "its work directories, and what was installed for it, were removed {} after its end",
    "logs": "its logs were removed {} after its end",
}


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
