"""The list of runs as a table: every column by name. Used by `ls`.

A column has a cell for people, and a value to sort by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.amounts import age, duration
from tarmac.cli.views.imageview import DIGEST_CHARACTERS
from tarmac.cli.views.messages import BATCH, running_s, state_cell, state_of, title
from tarmac.cli.views.table import Cell, Column, render
from tarmac.cli.views.terminal import Terminal, fit
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.text import suggestion

if TYPE_CHECKING:
    from tarmac import api

Run = Any
"""A line of the list (docs/using/api.md)."""

LONGEST_TEXT = 300
"""Maximum width of a text, even if the output has no width; `tarmac show` prints the complete text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumn:
    """One column: its head, the cell of a run at a time, and the value that runs are sorted by."""

    head: Column
    cell: Callable[[Run, float], Cell | str]
    value: Callable[[Run, float], Any]


def _text(title: str, field: str, **head: bool) -> RunColumn:
    return RunColumn(
        head=Column(title=title, **head),
        cell=lambda run, _now: fit(str(run[field] or ""), LONGEST_TEXT),
        value=lambda run, _now: run[field],
    )


def _number(title: str, field: str, *, optional: bool = False) -> RunColumn:
    return RunColumn(
        head=Column(title=title, right=True, optional=optional),
        cell=lambda run, _now: str(run[field]) if run[field] is not None else "",
        value=lambda run, _now: run[field],
    )


def _time(title: str, field: str) -> RunColumn:
    return RunColumn(
        head=Column(title=title, right=True),
        cell=lambda run, now: age(run[field], now) if run[field] is not None else "",
        value=lambda run, _now: run[field],
    )


def cluster_of(run: Run) -> str:
    """The cluster's name; a rehearsal's own repeats the run's id."""
    return (run["cluster"] or "").removesuffix(f"-{run['id']}")


DIGEST = "digest"
"""The column whose value must be requested for each run."""

COLUMNS: dict[str, RunColumn] = {
    "run": _text("RUN", "id"),
    "name": RunColumn(
        head=Column(title="NAME"),
        cell=lambda run, _now: Cell(title(run), "bold"),
        value=lambda run, _now: run["name"],
    ),
    "state": RunColumn(
        head=Column(title="STATE"),
        cell=lambda run, _now: state_cell(state_of(run)),
        value=lambda run, _now: state_of(run),
    ),
    "mode": RunColumn(
        head=Column(title="MODE", optional=True),
        cell=lambda run, _now: run["mode"] if run["mode"] != BATCH else "",
        value=lambda run, _now: run["mode"],
    ),
    "priority": RunColumn(
        head=Column(title="PRIORITY", right=True, optional=True),
        cell=lambda run, _now: str(run["priority"]) if run["priority"] else "",
        value=lambda run, _now: run["priority"],
    ),
    "slots": _number("SLOTS", "slots"),
    "cluster": RunColumn(
        head=Column(title="CLUSTER", optional=True),
        cell=lambda run, _now: cluster_of(run),
        value=lambda run, _now: cluster_of(run),
    ),
    "user": _text("USER", "user", optional=True),
    "created": _time("CREATED", "created_at"),
    "ran": RunColumn(
        head=Column(title="RAN", right=True),
        cell=lambda run, now: duration(running_s(run, now)),
        value=running_s,
    ),
    "why": _text("WHY", "message", flexible=True, optional=True),
    "project": _text("PROJECT", "project"),
    "pool": _text("POOL", "pool"),
    "type": _text("TYPE", "slot_type"),
    "image": _text("IMAGE", "image"),
    DIGEST: RunColumn(
        head=Column(title="DIGEST"),
        cell=lambda run, _now: (run[DIGEST] or "")[:DIGEST_CHARACTERS],
        value=lambda run, _now: run[DIGEST],
    ),
    "system": _text("SYSTEM", "system"),
    "dialect": _text("DIALECT", "dialect"),
    "cause": _text("CAUSE", "cause_code"),
    "attempt": _number("ATTEMPT", "attempt"),
    "preemptions": _number("PREEMPTIONS", "preemptions"),
    "turns": _number("TURNS", "turns"),
    "started": _time("STARTED", "started_at"),
    "ended": _time("ENDED", "ended_at"),
}

USUAL = ("run", "name", "state", "mode", "priority", "slots", "cluster", "user", "created", "ran", "why")

_OTHER_NAMES = {"id": "run", "outcome": "state", "message": "why", "slot_type": "type", "gpus": "slots"}


def column_names(text: str) -> list[str]:
    """The columns in a list such as "name,state"; raises InvalidInput for unknown ones."""
    problems: list[Problem] = []
    found: list[str] = []
    for word in (part.strip().lower() for part in text.split(",")):
        name = _OTHER_NAMES.get(word, word)
        if name in COLUMNS:
            found.append(name)
        else:
            hint = suggestion(word, COLUMNS, f"known: {', '.join(COLUMNS)}", _OTHER_NAMES)
            problems.append(Problem(message=f"there is no column {word!r}", hint=hint))
    if problems:
        raise InvalidInput(problems)
    return found


def sort_keys(text: str) -> list[tuple[str, bool]]:
    """The sort keys in a list such as "state,-created": columns, and whether the largest comes first."""
    words = [part.strip() for part in text.split(",")]
    names = column_names(",".join(word.removeprefix("-") for word in words))
    return [(name, word.startswith("-")) for name, word in zip(names, words, strict=True)]


def ordered(
    runs: Sequence[api.RunSummary], keys: Sequence[tuple[str, bool]], *, now: float
) -> list[api.RunSummary]:
    """The runs in this order; those without a value come last, in either direction."""
    result = list(runs)
    for name, descending in reversed(keys):
        value = COLUMNS[name].value
        known = [run for run in result if value(run, now) not in (None, "")]
        without = [run for run in result if value(run, now) in (None, "")]
        result = sorted(known, key=lambda run: value(run, now), reverse=descending) + without
    return result


def run_table(
    runs: Sequence[api.RunSummary],
    *,
    now: float,
    terminal: Terminal,
    columns: Sequence[str] | None = None,
) -> str:
    """The table of runs: of these columns, else of the usual ones, with users if there are several."""
    names = list(columns or USUAL)
    if columns is None and len({run["user"] for run in runs}) < 2:
        names.remove("user")
    shown = [COLUMNS[name] for name in names]
    rows = ([column.cell(run, now) for column in shown] for run in runs)
    return render([column.head for column in shown], rows, terminal)
