"""`tarmac queue`: list running and waiting runs in scheduling order; `set` and `move` change it.

Changes are read from words: options, or `RUN.priority=1 RUN2.pool=x`. All problems with the words are
reported at once; the server checks whether the runs and pools exist, and whether the change is allowed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_json, print_text, remark, wants_json
from tarmac.cli.lazy import Subcommands, calls_subcommand
from tarmac.cli.options import complete_run, flag
from tarmac.cli.views.queueview import LISTED, queue_pieces, queue_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Problem, suggestion

if TYPE_CHECKING:
    from tarmac.dialects.priorities import Scale

_DIALECTS = "tarmac.systems.registry"
"""Imported only for changes of priorities: it imports all readers."""

PAGE = 5_000
"""The lines in each request of a whole queue."""

HIGHEST_PRIORITY = 1_000_000
LARGEST_WEIGHT = 100_000

Change = dict[str, Any]
"""A `QueueChange` of docs/using/api.md."""

OPERATIONS = ("priority", "weight", "pool", "resource-pool", "ahead-of", "behind-of")
"""The words between the dot and the equals sign."""

_SYNONYMS = {name.replace("-", "_"): name for name in OPERATIONS if "-" in name}
_MOVES = frozenset({"ahead_of", "behind_of"})


@click.group(cls=Subcommands, invoke_without_command=True)
@click.option("--cluster", metavar="NAME", help="Only the pools of this cluster.")
@click.option("--pool", metavar="NAME", help="Only pools of this name.")
@flag("--mine", help="Only your own runs.")
@flag("--all", "-a", "everything", help="All of a long queue, also on a terminal.")
@flag("--expand", help="A line for each member of an array, not one for all.")
@click.pass_context
def queue(ctx: click.Context, /, *, everything: bool, expand: bool, **chosen: Any) -> None:
    """Show the queue of each pool: running and waiting runs, in scheduling order.

    SLOTS are those held of those needed. EST. START is when a waiting run is likely to start, if nothing
    else is submitted. Runs that have ended are left out.
    """
    if calls_subcommand(ctx):
        return
    whole = everything or wants_json() or stdout_terminal().width is None
    chosen |= {"limit": PAGE if whole else LISTED, "arrays": not (expand or wants_json())}
    queues = connect().queue_pages(**chosen)
    if wants_json():
        print_json({"pools": map(_document, queues)})
        return
    pages = (queue if whole else islice(queue, 1) for queue in queues)
    nonempty = not (chosen["cluster"] or chosen["pool"])
    if not print_queues(pages, nonempty=nonempty):
        remark("none of your runs is queued or running" if chosen["mine"] else "nothing is queued or running")


@queue.command("set")
@click.argument("words", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--priority", metavar="N", help="A bigger number is sooner; of an experiment of Determined, a smaller."
)
@click.option("--weight", metavar="W", help="Its share of a fair-share pool.")
@click.option(
    "--pool", "--resource-pool", metavar="NAME", help="Another pool; a run that runs starts again there."
)
def set_(*, words: tuple[str, ...], **options: str | None) -> None:
    """Change the priority, weight or pool of runs, all or none.

    The priority of an experiment of Determined is on its scale: 1 is first, 42 usual, 99 last.

    Several different changes at once are written RUN.OPERATION=VALUE, where OPERATION is priority, weight,
    pool, ahead-of or behind-of. They are checked as if made one after another, before any is made.

    \b
    tarmac queue set digits --priority 10
    tarmac queue set digits.priority=10 other.pool=big third.ahead-of=digits
    """
    values = {field: value for field, value in options.items() if value is not None}
    batch = [word for word in words if "=" in word]  # a batch: names of runs have no equals sign
    if batch and values:
        option = next(iter(values))
        raise click.UsageError(f"{batch[0]} says what to change, and so does --{option}; use one form")
    if not batch and not values:
        raise click.UsageError("what is to change? Give --priority, --weight or --pool")
    change_queue(read_assignments(words) if batch else read_options(words, values))


@queue.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--ahead-of", metavar="RUN", shell_complete=complete_run, help="Right before this run.")
@click.option("--behind-of", metavar="RUN", shell_complete=complete_run, help="Right after this run.")
@flag("--top", help="Before all batch runs of its pool.")
def move(*, run: str, **options: str | bool | None) -> None:
    """Move a run to another place in the queue of its pool.

    It takes the priority of the run it is moved next to. In a pool where runs can be preempted, one that
    is moved ahead of a running run takes its slots.
    """
    place = {field: value for field, value in options.items() if value not in (None, False)}
    if len(place) != 1:
        raise click.UsageError("give one of --ahead-of RUN, --behind-of RUN and --top")
    change_queue([{"run": run, **place}])


def read_assignments(words: Sequence[str]) -> list[Change]:
    """The changes of `RUN.OPERATION=VALUE ...`, in order; raises InvalidInput with all problems.

    The last dot before the first equals sign separates run and operation: names and weights may have dots.
    """
    problems: list[Problem] = []
    changes: list[Change] = []
    for word in words:
        left, equals, value = word.partition("=")
        reference, dot, operation = left.rpartition(".")
        if not equals or not dot or not reference:
            problems.append(_problem(word, "is not of the form RUN.OPERATION=VALUE", _FORM_HINT))
        elif operation not in OPERATIONS:
            hint = suggestion(operation, OPERATIONS, f"one of {', '.join(OPERATIONS)}", _SYNONYMS)
            problems.append(_problem(word, f"there is no operation {operation!r}", hint))
        else:
            field = operation.removeprefix("resource-").replace("-", "_")
            try:
                changes.append({"run": reference, field: _VALUES[field](_unquoted(value))})
            except ValueError as misfit:
                problems.append(_problem(word, str(misfit)))
    problems += _contradictions(changes)
    if problems:
        raise InvalidInput(problems)
    return changes


def read_options(references: Sequence[str], options: Mapping[str, str]) -> list[Change]:
    """The same changes for each of these runs; `options` has the text of each field."""
    values: Change = {}
    problems: list[Problem] = []
    for field, text in options.items():
        try:
            values[field] = _VALUES[field](text)
        except ValueError as misfit:
            problems.append(_problem(f"--{field}", str(misfit)))
    if problems:
        raise InvalidInput(problems)
    return [{"run": run, field: value} for run in references for field, value in values.items()]


def _contradictions(changes: Sequence[Change]) -> list[Problem]:
    """Fields set twice for one run; and moves of a run combined with the priority that they would set."""
    first: dict[tuple[str, str], Any] = {}
    problems = []
    for change in changes:
        reference = change["run"]
        ((field, value),) = ((field, value) for field, value in change.items() if field != "run")
        kind = "place" if field in _MOVES or field == "priority" else field
        before = first.setdefault((reference, kind), (field, value))
        if before != (field, value):
            words = " and ".join(
                f"{name.replace('_', '-')}={content}" for name, content in (before, (field, value))
            )
            problems.append(Problem(message=f"{reference}: {words} contradict each other"))
    return problems


def _priority(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or abs(int(text)) > HIGHEST_PRIORITY:
        raise ValueError(
            f"a priority is a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, not {text!r}"
        )
    return int(text)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= LARGEST_WEIGHT:
        raise ValueError(f"a weight is a number above 0, at most {LARGEST_WEIGHT}, not {text!r}")
    return weight


def _name(text: str) -> str:
    if not text:
        raise ValueError("there is nothing after the equals sign")
    return text


_VALUES: dict[str, Callable[[str], Any]] = {
    "priority": _priority,
    "weight": _weight,
    "pool": _name,
    "ahead_of": _name,
    "behind_of": _name,
}
_FORM_HINT = "such as digits.priority=10 or digits.ahead-of=other"


def _unquoted(text: str) -> str:
    """The text without quotes that a shell has left around it."""
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _problem(word: str, message: str, hint: str | None = None) -> Problem:
    return Problem(message=f"{word}: {message}", hint=hint)


def change_queue(changes: Sequence[Change], *, dialect: str | None = None) -> None:
    """Make all of these changes or none, and print the changed queues.

    A priority is on the scale of `dialect`, by default that of the run's file.
    """
    client = connect()
    sent = _on_our_scale(client, changes, dialect=dialect)
    pools = client.change_queue(sent, limit=LISTED)
    names = ", ".join(dict.fromkeys(change["run"] for change in sent))
    empty = f"{names}: changed, and in no queue now; the change counts once it is resumed"
    text = queue_text(pools, now=time.time(), terminal=stdout_terminal())
    answer({"pools": pools}, text, empty=empty)


def print_queues(queues: Iterable[Iterator[api.QueuePool]], *, nonempty: bool) -> bool:
    """Print the table of each queue page by page; returns whether there is one (`nonempty`: with runs)."""
    printed, now, terminal = False, time.time(), stdout_terminal()
    for pages in queues:
        first = next(pages)
        if nonempty and not first.runs:
            continue
        if printed:
            print_text("")
        for piece in queue_pieces(chain([first], pages), now=now, terminal=terminal):
            print_text(piece)
        printed = True
    return printed


def joined(pages: Iterator[api.QueuePool]) -> api.QueuePool:
    """A queue as one page."""
    pool, runs = _opened(pages)
    return replace(pool, runs=tuple(runs))


def _document(pages: Iterator[api.QueuePool]) -> dict[str, Any]:
    """A queue in the form of its record, whose runs are read as they are written."""
    pool, runs = _opened(pages)
    return {**to_builtins(pool), "runs": runs}


def _opened(pages: Iterator[api.QueuePool]) -> tuple[api.QueuePool, Iterator[api.QueueEntry]]:
    """The pool of a queue, and all of its runs, read page by page."""
    first = next(pages)
    return replace(first, runs=(), next=None), (run for page in chain([first], pages) for run in page.runs)


def _on_our_scale(client: Client, changes: Sequence[Change], *, dialect: str | None) -> list[Change]:
    """The changes with tarmac's priorities; raises InvalidInput with all that exceed their system's scale."""
    problems: list[Problem] = []
    found: list[Change] = []
    for change in changes:
        scale = _scale(client, change["run"], dialect) if "priority" in change else None
        found.append(change if scale is None else _rescaled(change, scale, problems))
    if problems:
        raise InvalidInput(problems)
    return found


def _scale(client: Client, reference: str, dialect: str | None) -> Scale | None:
    """The scale of a dialect's priorities, by default of the run's own; None is tarmac's.

    It is tarmac's for an unknown run as well, which the server reports better.
    """
    try:
        name = dialect or client.run(reference).dialect
        found: Scale | None = import_module(_DIALECTS).dialect_of(name).scale
    except NotFound:
        return None
    return found


def _rescaled(change: Change, scale: Scale, problems: list[Problem]) -> Change:
    native = change["priority"]
    if not scale.first <= native <= scale.last:
        allowed = f"from {scale.first} (first) to {scale.last} (last)"
        message = f"{change['run']}: a priority of {scale.system} is {allowed}, not {native}"
        problems.append(Problem(message=message, hint=f"{scale.usual} is the usual one"))
        return change
    priority = scale.to_tarmac(native)
    of_system = f"of {scale.system}, where {scale.first} is first"
    remark(f"{change['run']}: priority {native} {of_system}, is {priority} here")
    return {**change, "priority": priority}
