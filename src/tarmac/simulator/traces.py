"""Reads traces: recognises the form of a file by its content, makes jobs of its lines, and reports all
problems.

Called by `tarmac simulate` and the benchmark.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from tarmac.model.errors import InvalidInput, Problem, nearest
from tarmac.model.lifecycle import Mode
from tarmac.simulator import swf
from tarmac.simulator.forms import CSV, FORMS, NEEDED, SWF, Form, Meaning, Window, form_of, mapped
from tarmac.simulator.jobs import Job, Trace

PROBLEMS_LISTED = 20
"""The number of a file's problems that are reported one by one; the others are counted."""

DIGEST_CHARACTERS = 16

WINDOWS: Mapping[str, Window] = {
    "ebffb3dd1589bdf4": Window(
        since=datetime(2017, 10, 1, tzinfo=UTC).timestamp(),
        until=datetime(2017, 12, 1, tzinfo=UTC).timestamp(),
    )
}
"""The parts of public files that other publications measured, by digest: of Philly, October and November
2017."""

MOST_SLOTS = 100_000
"""A larger number of slots is a mistake in the file."""

MOST = 1e9
"""The largest number in a trace, except times."""

LONGEST_S = 1e11
"""The longest time: three thousand years."""


def read_trace(
    path: str,
    *,
    form: str | None = None,
    columns: Mapping[Meaning, str] | None = None,
    window: Window | None = None,
) -> Trace:
    """The trace in a file; raises InvalidInput with all its problems.

    `form` None: recognised by the content; `columns` overrides names of the form's columns; `window` leaves
    out jobs submitted outside it (None: the part of the file that other publications measured, see
    `WINDOWS`).
    """
    content = _content(path)
    text = content.decode("utf-8-sig", errors="replace")
    if not text.partition("\n")[0].rstrip("\r").replace("\t", " ").isprintable():
        raise InvalidInput([Problem(message="this is not a text file", file=path)])
    if not text.strip():
        raise InvalidInput([Problem(message="this file is empty", file=path)])
    digest = hashlib.sha256(content).hexdigest()[:DIGEST_CHARACTERS]
    chosen = mapped(_form(path, text, form, bool(columns)), columns or {})
    chosen_window = window or WINDOWS.get(digest) or Window()
    reading = _Reading(path, chosen)
    jobs = [job for job in reading.jobs(text) if chosen_window.holds(job.submitted_at)]
    reading.conclude()
    if not jobs:
        where = " within the dates asked for" if window not in (None, Window()) else ""
        lost = f": {reading.left_out} have no running time or processors" if reading.left_out else ""
        raise InvalidInput([Problem(message=f"there is no job in it{where}{lost}", file=path)])
    jobs.sort(key=lambda job: job.submitted_at)  # stable: jobs of one time stay in the order of the file
    return Trace(
        name=Path(path).stem,
        form=chosen.name,
        jobs=tuple(jobs),
        cluster=reading.cluster,
        digest=digest if window is None else "",
        left_out=reading.left_out,
    )


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of a date (UTC if it names no zone); None if it is no date."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput([Problem(message=f"it cannot be read: {reason}", file=path)]) from error


def _form(path: str, text: str, name: str | None, columned: bool) -> Form:
    if name is not None:
        return FORMS[name]
    found = CSV if columned else form_of(text.partition("\n")[0].rstrip("\r"))
    if found is None:
        known = ", ".join(FORMS)
        message = f"the form of this trace is not known (known: {known})"
        hint = "name its columns: --columns submitted=NAME,duration=NAME,slots=NAME"
        raise InvalidInput([Problem(message=message, file=path, line=1, hint=hint)])
    return found


class _Reading:
    """One file that is being read: its columns, and its problems so far."""

    def __init__(self, path: str, form: Form) -> None:
        self._path = path
        self._form = form
        self._problems: list[Problem] = []
        self._wrong = 0
        self._columns: dict[Meaning, int] = {}
        self._titles: dict[Meaning, str] = {}
        self._text_lines: list[str] = []
        self.cluster, self._began_at = form.cluster, 0.0
        self.left_out = 0

    def jobs(self, text: str) -> Iterator[Job]:
        """The valid jobs of the file, in its order."""
        of_archive = self._form.name == SWF.name
        if of_archive:
            (self.cluster, self._began_at), self._text_lines = swf.machine_of(text), text.split("\n")
        rows = swf.rows(self._text_lines) if of_archive else self._rows(text)
        if not self._find_columns(next(rows, (1, []))[1] if self._form.headed else []):
            return
        needed = swf.WIDTH if of_archive else max(self._columns.values()) + 1
        for line, row in rows:
            if not row:
                continue
            if len(row) < needed:
                self._wrong_line(line, f"columns: {len(row)}, and {needed} are needed")
                continue
            if of_archive and not swf.is_complete(row):
                self.left_out += 1
                continue
            job = self._job(row, line)
            if job is not None:
                yield job

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """The number and the fields of each line, up to the first line that is not CSV."""
        rows = csv.reader(StringIO(text, newline=""), delimiter=self._form.delimiter)
        try:
            for row in rows:
                yield rows.line_num, row
        except csv.Error as error:
            self._wrong_line(rows.line_num, f"this line is not CSV: {error}")

    def conclude(self) -> None:
        """Raise InvalidInput with the problems, if any."""
        if not self._problems:
            return
        more = self._wrong - len(self._problems)
        if more:
            self._problems.append(Problem(message=f"and {more} more problems like these", file=self._path))
        raise InvalidInput(self._problems)

    def _find_columns(self, header: list[str]) -> bool:
        """Find the column of each meaning; False, with the problems noted, if a needed column is missing."""
        if not self._form.headed:
            self._columns = {meaning: at for meaning, at in self._form.columns.items() if isinstance(at, int)}
            self._titles = {meaning: f"column {at + 1}" for meaning, at in self._columns.items()}
            return True
        names = [name.strip() for name in header]
        renamed = self._form.columns.items() - FORMS[self._form.name].columns.items()
        for meaning, name in self._form.columns.items():
            if name in names:
                self._columns[meaning] = names.index(str(name))
                self._titles[meaning] = f"column {name!r}"
            elif meaning in NEEDED or (meaning, name) in renamed:
                self._no_column(meaning, str(name), names)
        return not self._problems

    def _no_column(self, meaning: Meaning, name: str, names: list[str]) -> None:
        close = nearest(name, names)
        hint = f"did you mean {close!r}?" if close else f"its columns: {', '.join(names)}"
        self._note(Problem(message=f"no column {name!r} ({meaning})", file=self._path, line=1, hint=hint))

    def _job(self, row: list[str], line: int) -> Job | None:
        before = self._wrong
        unit_s = self._form.unit_s
        submitted_at = self._time(row, line, Meaning.SUBMITTED)
        duration_s = self._number(row, line, Meaning.DURATION, most=LONGEST_S / unit_s)
        slots = self._number(row, line, Meaning.SLOTS, whole=True, most=MOST_SLOTS)
        priority = self._number(row, line, Meaning.PRIORITY, whole=True, default=0.0, negative=True)
        weight = self._number(row, line, Meaning.WEIGHT, default=1.0, positive=True)
        limit_s = self._number(row, line, Meaning.LIMIT, default=0.0, most=LONGEST_S / unit_s)
        mode = self._mode(row, line)
        if self._wrong > before:
            return None
        return Job(
            id=f"{line:06}",
            name=self._text(row, Meaning.NAME) or f"job-{line}",
            submitted_at=self._began_at + submitted_at,
            duration_s=duration_s * unit_s,
            slots=int(slots),
            user=self._text(row, Meaning.USER),
            project=self._text(row, Meaning.PROJECT) or "default",
            mode=mode,
            priority=int(priority),
            weight=weight,
            limit_s=limit_s * unit_s or None,
        )

    def _time(self, row: list[str], line: int, meaning: Meaning) -> float:
        text = row[self._columns[meaning]].strip()
        try:
            value = float(text) * self._form.unit_s
        except ValueError:
            at = parse_time(text)
            if at is None:
                self._wrong_field(row, line, meaning, "a number or a date like 2017-10-01 08:30:00")
            return at or 0.0
        if not 0 <= value <= LONGEST_S:
            self._wrong_field(row, line, meaning, "a time, not below 0")
        return value

    def _number(
        self,
        row: list[str],
        line: int,
        meaning: Meaning,
        *,
        default: float | None = None,
        whole: bool = False,
        positive: bool = False,
        negative: bool = False,
        most: float = MOST,
    ) -> float:
        at = self._columns.get(meaning)
        text = row[at].strip() if at is not None else ""
        if not text and default is not None:
            return default
        value = swf.value_of(text)
        wrong = not abs(value) <= most or (whole and value != int(value)) or (positive and value <= 0)
        if wrong or (value < 0 and not negative):
            kind = "a whole number" if whole else "a number"
            bound = "" if negative else " above 0" if positive else ", not below 0"
            if value > most:
                bound += f" and at most {most:,.0f}"
            self._wrong_field(row, line, meaning, kind + bound)
            return 0.0
        return value

    def _mode(self, row: list[str], line: int) -> Mode:
        text = (self._text(row, Meaning.MODE) or Mode.BATCH).lower()
        if text in {*Mode}:
            return Mode(text)
        self._wrong_field(row, line, Meaning.MODE, f"one of {', '.join(Mode)}")
        return Mode.BATCH

    def _text(self, row: list[str], meaning: Meaning) -> str | None:
        at = self._columns.get(meaning)
        return (row[at].strip() or None) if at is not None else None

    def _wrong_field(self, row: list[str], line: int, meaning: Meaning, allowed: str) -> None:
        at = self._columns[meaning]
        begins = sum(len(field) + 1 for field in row[:at]) + 1
        if self._text_lines:
            begins = swf.column_of(self._text_lines[line - 1], at)
        found = row[at].strip()
        message = f"{self._titles[meaning]} is {found!r:.60}, and has to be {allowed}"
        self._note(Problem(message=message, file=self._path, line=line, column=begins))

    def _wrong_line(self, line: int, message: str) -> None:
        self._note(Problem(message=message, file=self._path, line=line))

    def _note(self, problem: Problem) -> None:
        self._wrong += 1
        if len(self._problems) < PROBLEMS_LISTED:
            self._problems.append(problem)
