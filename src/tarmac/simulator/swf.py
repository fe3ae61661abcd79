"""The Standard Workload Format of the Parallel Workloads Archive: rows and header. Called by `traces`.

A line is a job of 18 columns, -1 is an unknown value, and `;` begins a comment. The first comments describe
the machine.
"""

import re
from collections.abc import Iterable, Iterator
from math import isnan, nan

SUBMITTED, DURATION, ALLOCATED, REQUESTED, LIMIT, USER, EXECUTABLE = 1, 3, 4, 7, 8, 11, 13
WIDTH = 18
COMMENT = ";"
UNKNOWN = -1.0

_HEADER = re.compile(r";\s*(MaxNodes|MaxProcs|UnixStartTime):\s*(\d{1,11})\b")


def begins(line: str) -> bool:
    """Whether a file that begins with this line is of this format."""
    fields = line.split()
    return line.startswith(COMMENT) or (len(fields) == WIDTH and not any(map(isnan, map(value_of, fields))))


def machine_of(text: str) -> tuple[str | None, float]:
    """The shape of the machine in the header (None: unknown), and the time from which the log counts."""
    said = {name: int(value) for name, value in _HEADER.findall(text)}
    slots = said.get("MaxProcs") or said.get("MaxNodes", 0)
    nodes = said.get("MaxNodes") or slots
    shape = f"{nodes}x{slots // nodes}" if nodes and slots % nodes == 0 else f"{slots}x1"
    return shape if slots else None, float(said.get("UnixStartTime", 0))


def rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The line number and the columns of each job; unknown values are empty.

    Requested processors replace unknown allocated ones. A job that ran beyond its requested time keeps its
    running time as limit, which was not enforced.
    """
    for number, line in enumerate(lines, 1):
        row = ["" if value_of(field) == UNKNOWN else field for field in line.split()]
        if not row or row[0].startswith(COMMENT):
            continue
        if len(row) == WIDTH:
            if not row[ALLOCATED] or value_of(row[ALLOCATED]) == 0:
                row[ALLOCATED] = row[REQUESTED]
            if value_of(row[LIMIT]) < value_of(row[DURATION]):
                row[LIMIT] = row[DURATION]
        yield number, row


def is_complete(row: list[str]) -> bool:
    """Whether a row says how long its job ran and on how many processors."""
    return bool(row[DURATION] and row[ALLOCATED]) and value_of(row[ALLOCATED]) != 0


def column_of(line: str, at: int) -> int:
    """The position in a line at which a column begins."""
    return [match.start() for match in re.finditer(r"\S+", line)][at] + 1


def value_of(field: str) -> float:
    """The value of a field; NaN if the field is no number."""
    try:
        return float(field)
    except ValueError:
        return nan
