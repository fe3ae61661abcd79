"""The list of runs as a table: every column by name; and one line for all members of an array. Used by `ls`.

A column has a cell for people; its key, or else its cell, is the value to sort by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from tarmac import api
from tarmac.cli.views.amounts import age, duration
from tarmac.cli.views.messages import BATCH, running_s, state_cell, state_of, title
from tarmac.cli.views.table import Cell, Column, Table, facts_text, table_pieces
from tarmac.cli.views.terminal import Terminal, fit, one_line
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem, suggestion
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import RUN_OUTCOMES, Outcome
from tarmac.model.summary import RunSummary

if TYPE_CHECKING:
    from tarmac.model.run_records import Annotation


class ListedRun(RunSummary, frozen=True, kw_only=True):
    """A line of the list. `counts` are those of an array with members in several states.

    `digest` is that of the last image, requested for the column of that name alone.
    """

    counts: str = ""
    digest: str | None = None


LONGEST_TEXT = 300
"""Maximum width of a text, even if the output has no width; `tarmac show` prints the complete text."""


def _text(title: str, field: str, **head: Any) -> Column[ListedRun]:
    return Column(title, lambda run, _: fit(str(getattr(run, field) or ""), LONGEST_TEXT), **head)


def _number(title: str, field: str) -> Column[ListedRun]:
    return Column(title, lambda run, _: getattr(run, field), right=True)


def _time(title: str, field: str) -> Column[ListedRun]:
    return Column(
        title,
        lambda run, now: age(getattr(run, field), now),
        key=lambda run, _: getattr(run, field),
        right=True,
    )


def cluster_of(run: RunSummary) -> str:
    """The cluster's name; a rehearsal's own repeats the run's id."""
    return (run.cluster or "").removesuffix(f"-{run.id}")


def _state(run: ListedRun) -> str:
    return run.counts or state_of(run)


PIECE = 1000
"""The lines of a piece of the table."""

DIGEST_CHARACTERS = len("sha256:") + 12
DIGEST = "digest"
"""The column whose value must be requested for each run."""

COLUMNS: dict[str, Column[ListedRun]] = {
    "run": _text("RUN", "id"),
    "name": Column("NAME", lambda run, _: Cell(title(run), "bold"), key=lambda run, _: run.name),
    "state": Column("STATE", lambda run, _: state_cell(_state(run)), key=lambda run, _: _state(run)),
    "mode": Column(
        "MODE",
        lambda run, _: run.mode if run.mode != BATCH else "",
        key=lambda run, _: run.mode,
        optional=True,
    ),
    "priority": Column(
        "PRIORITY",
        lambda run, _: run.priority or "",
        key=lambda run, _: run.priority,
        right=True,
        optional=True,
    ),
    "slots": _number("SLOTS", "slots"),
    "cluster": Column("CLUSTER", lambda run, _: cluster_of(run), optional=True),
    "user": _text("USER", "user", optional=True),
    "created": _time("CREATED", "created_at"),
    "ran": Column("RAN", lambda run, now: duration(running_s(run, now)), key=running_s, right=True),
    "why": _text("WHY", "message", flexible=True, optional=True),
    "project": _text("PROJECT", "project"),
    "pool": _text("POOL", "pool"),
    "type": _text("TYPE", "slot_type"),
    "image": _text("IMAGE", "image"),
    DIGEST: Column("DIGEST", lambda run, _: (run.digest or "")[:DIGEST_CHARACTERS]),
    "system": _text("SYSTEM", "system"),
    "dialect": _text("DIALECT", "dialect"),
    "cause": _text("CAUSE", "cause_code"),
    "attempt": _number("ATTEMPT", "attempt"),
    "preemptions": _number("PREEMPTIONS", "preemptions"),
    "turns": _number("TURNS", "turns"),
    "started": _time("STARTED", "started_at"),
    "ended": _time("ENDED", "ended_at"),
}

_ORDER = (
    *("running", "starting", "pausing", "preempting", "stopping", "submitted", "queued", "pending", "paused"),
    *("completed", "failed", "stopped"),
)

ANNOTATIONS: Table[Annotation] = (
    Column("WHEN", lambda each, now: age(each.at, now), right=True),
    Column("BY", lambda each, _: each.actor, optional=True),
    Column("KIND", lambda each, _: each.kind),
    Column("TEXT", lambda each, _: each.text, flexible=True),
)

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


def ordered(runs: Sequence[ListedRun], keys: Sequence[tuple[str, bool]], *, now: float) -> list[ListedRun]:
    """The runs in this order; those without a value come last, in either direction."""
    result = list(runs)
    for name, descending in reversed(keys):
        value: Callable[[ListedRun, float], Any] = COLUMNS[name].key or COLUMNS[name].cell
        known = [run for run in result if value(run, now) not in (None, "")]
        without = [run for run in result if value(run, now) in (None, "")]
        result = sorted(known, key=lambda run: value(run, now), reverse=descending) + without
    return result


def run_pieces(
    runs: Iterable[ListedRun], *, now: float, terminal: Terminal, columns: Sequence[str] | None = None
) -> Iterator[str]:
    """The table of runs, piece by piece: of these columns, else of the usual ones, with users if there are
    several, or if there is more than one piece.
    """
    names, rest = list(columns or USUAL), iter(runs)
    pieces = iter(lambda: list(islice(rest, PIECE)), [])
    first, second = next(pieces, []), next(pieces, [])
    if columns is None and not second and len({run.user for run in first}) < 2:
        names.remove("user")
    parts = chain(filter(None, (first, second)), pieces)
    return table_pieces([COLUMNS[name] for name in names], parts, terminal, now=now)


def written(array: api.Array) -> str:
    """Its name and indices, as `sweep[0-99%8]`."""
    limit = f"%{array.at_most}" if array.at_most is not None else ""
    return f"{array.name}[{array.indices}{limit}]"


def counts_text(counts: Mapping[str, int]) -> str:
    """The number of members in each state: `8 running, 90 queued, 2 completed`."""
    words = sorted(counts, key=lambda word: _ORDER.index(word) if word in _ORDER else len(_ORDER))
    return ", ".join(f"{counts[word]} {word}" for word in words)


def array_text(array: api.Array, *, now: float, terminal: Terminal) -> str:
    """The page of an array."""
    fields = {
        "array": array.id,
        "name": terminal.paint(one_line(written(array)), "bold"),
        "members": str(array.total),
        "state": counts_text(array.counts),
        "project": array.project if array.project != "default" else "",
        "user": array.user,
        "created": age(array.created_at, now),
        "one": f"tarmac show '{array.name}[INDEX]'; all: tarmac ls --expand --name {array.name}",
    }
    return facts_text(fields, terminal)


def first_members(runs: Iterable[RunSummary]) -> Iterator[RunSummary]:
    """Single runs unchanged, and of each array the member that comes first."""
    seen: set[str] = set()
    for run in runs:
        if (unit := run.array_id or run.id) not in seen:
            seen.add(unit)
            yield run


def as_array(run: ListedRun, array: api.Array) -> ListedRun:
    """The line of a member as the line of the whole array."""
    counts = array.counts
    only = next(iter(counts)) if len(counts) == 1 else None
    outcome = Outcome(only) if only in RUN_OUTCOMES else None
    return replace(
        run,
        id=array.id,
        name=written(array),
        array_index=None,
        state=RunState.ENDED if outcome else RunState(only) if only else run.state,
        outcome=outcome,
        message=None,
        counts="" if only else counts_text(counts),
    )
