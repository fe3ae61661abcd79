"""The result of each job of a play, as rows of a CSV file, which `tarmac simulate --jobs FILE.csv` writes.

All printed figures of a play can be computed from them; docs/operating/simulate.md explains each column.
"""

import csv
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from tarmac.model.errors import InvalidInput
from tarmac.node.files import untrusted
from tarmac.simulator.playing import Rules
from tarmac.simulator.record import Passage, Record

COLUMNS = (
    "trace",
    "play",
    "job",
    "name",
    "user",
    "slots",
    "duration_s",
    "limit_s",
    "submitted_s",
    "started_s",
    "ended_s",
    "completion_s",
    "held_s",
    "queueing_s",
    "preemptions",
    "cost",
    "outcome",
)

Row = tuple[str | int | float, ...]
"""The values of all columns but the first two; empty text for none."""


def rows(record: Record, rules: Rules) -> tuple[Row, ...]:
    """A row for each job, in the order of the trace. Times count from the first submission."""
    began = min((passage.submitted_at for passage in record.passages.values()), default=0.0)
    found = []
    for number, job in enumerate(record.jobs):
        limit_s = rules.limit_of(job)
        request = (job.id, job.name, job.user or "", job.slots, job.duration_s, limit_s or "")
        passage = record.passages.get(number)
        outcome = "never fits" if number in record.never_fits else "not submitted"
        became = _became(passage, began, record.now) if passage else ("",) * 6 + (0, "", outcome)
        found.append((*request, *became))
    return tuple(found)


def check_path(option: str, file: str) -> None:
    """Raise InvalidInput if the `file` of an option cannot be written, before the plays for it."""
    path = Path(file)
    if path.is_dir():
        raise InvalidInput(f"{option} {file!r}: this is a directory")
    if not path.parent.is_dir():
        raise InvalidInput(f"{option} {file!r}: there is no directory {str(path.parent)!r}")


def write_rows(played: Iterable[tuple[str, str, Iterable[Row]]], path: Path) -> None:
    """Replace a file by the rows of all plays, each with its trace and label; raises OSError."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for trace, play, found in played:
        writer.writerows((trace, play, *row) for row in found)
    untrusted.replace(str(path), text.getvalue().encode())


def _became(passage: Passage, began: float, now: float) -> Row:
    """The columns for a job that was submitted."""
    started_s = "" if passage.started_at is None else passage.started_at - began
    if passage.ended_at is None:
        outcome = "waiting" if passage.queued_at is not None else "running"
        times: Row = (started_s, "", "", passage.held_s, "")
    else:
        outcome = "failed" if passage.failed else "completed"
        queueing_s = passage.completion_s - passage.held_s
        times = (started_s, passage.ended_at - began, passage.completion_s, passage.held_s, queueing_s)
    cost = passage.rented.cost(now) if passage.rented is not None else ""
    return (passage.submitted_at - began, *times, passage.preemptions, cost, outcome)
