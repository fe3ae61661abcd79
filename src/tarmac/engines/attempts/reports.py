"""Reads reports of workers, made through the SDK, from attempt directories. Called by every engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.model.abilities import ReportPiece
from tarmac.node.attempt.protocol import LONGEST_REPORTS_BYTES
from tarmac.node.files import untrusted


def read_reports(
    views: Views, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
) -> dict[str, list[ReportPiece]]:
    """Like `ReadsReports.reports`, from the directories that `views` read."""
    found = {}
    for attempt_id, known in positions.items():
        view = views.find(attempt_id)
        if view is not None and (pieces := list(_pieces(view, known, limit_bytes))):
            found[attempt_id] = pieces
    return found


def _pieces(view: AttemptView, known: Mapping[str, int], limit_bytes: int) -> Iterator[ReportPiece]:
    for node in view.nodes:
        begin = known.get(node.node, 0)
        piece = next_piece(node.paths.reports, begin, limit_bytes)
        if piece is not None:
            content, end = piece
            yield ReportPiece(node=node.node, begin=begin, end=end, content=content)


def next_piece(path: str, begin: int, limit_bytes: int) -> tuple[bytes, int] | None:
    """Complete lines of a file from a position, and their end; None if there is no complete one."""
    room = min(limit_bytes, LONGEST_REPORTS_BYTES - begin)
    if room <= 0:
        return None
    try:
        content = untrusted.read_part(path, begin, room)
    except OSError:
        return None
    return whole_lines(content, begin)


def whole_lines(content: bytes, begin: int) -> tuple[bytes, int] | None:
    """The complete lines at the beginning of the content, and their end; an overlong line is skipped."""
    lines = content[: content.rfind(b"\n") + 1]
    if lines:
        return lines, begin + len(lines)
    return (b"", begin + len(content)) if len(content) > untrusted.LONGEST_LINE_BYTES else None
