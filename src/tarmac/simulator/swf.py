"""The Standard Workload Format of the Parallel Workloads Archive: rows and header. Called by `traces`.

A line is a job of 18 columns, -1 is an unknown value, and `;` begins a comment. The first comments describe
the machine.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SUBMITTED, DURATION, ALLOCATED, REQUESTED, LIMIT, USER, EXECUTABLE = 1, 3, 4, 7, 8, 11, 13
WIDTH = 18
COMMENT = ";"
UNKNOWN = -1.0

_HEADER = re.compile(r";\s*(MaxNodes|MaxProcs|UnixStartTime):\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The shape of the machine in the header (None: unknown), and the time from which the log counts."""

    shape: str | None = None
    began_at: float = 0.0


def begins(line: str) -> bool:
    """Whether a file that begins with this line is of this format."""
    fields = line.split()
    return line.startswith(COMMENT) or (len(fields) == WIDTH and None not in map(_number, fields))


def machine_of(text: str) -> Machine:
    """The machine that the header describes."""
    said = {name: int(value) for name, value in _HEADER.findall(text)}
    slots = said.get("MaxProcs") or said.get("MaxNodes", 0)
    nodes = said.get("MaxNodes") or slots
    each, rest = divmod(slots, nodes) if nodes else (0, 0)
    shape = f"{slots}x1" if rest else f"{nodes}x{each}"
    return Machine(shape=shape if slots else None, began_at=float(said.get("UnixStartTime", 0)))


def rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The line number and the columns of each job; unknown values are empty.

    Requested processors replace unknown allocated ones. A job that ran beyond its requested time keeps its
    running time as limit: nobody enforced the limit.
    """
    for number, line in enumerate(lines, 1):
        row = ["" if _number(field) == UNKNOWN else field for field in line.split()]
        if not row or row[0].startswith(COMMENT):
            continue
        if len(row) == WIDTH:
            row[ALLOCATED] = _known(row[ALLOCATED]) or _known(row[REQUESTED])
            limit_s, ran_s = _number(row[LIMIT]), _number(row[DURATION])
            if limit_s is not None and ran_s is not None and limit_s < ran_s:
                row[LIMIT] = row[DURATION]
        yield number, row


def is_complete(row: list[str]) -> bool:
    """Whether a row says how long its job ran and on how many processors."""
    return bool(row[DURATION] and row[ALLOCATED])


def column_of(line: str, at: int) -> int:
    """The position in a line at which a column begins."""
    return [match.start() for match in re.finditer(r"\S+", line)][at] + 1


def _known(processors: str) -> str:
    return "" if _number(processors) == 0 else processors


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
