"""`tarmac ls`: print a table of runs. By default all live runs, and the newest ended ones.

A terminal shows the newest lines. In a pipe the lines are printed as the pages of the list are read.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import click
from msgspec import convert, to_builtins

from tarmac.cli.dialogue import connect, print_json, print_text, remark, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag, pairs_option
from tarmac.cli.selecting import PAGE, pages
from tarmac.cli.views import runview
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.codec import replace
from tarmac.model.errors import suggestion
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.model.progress import RUN_OUTCOMES
from tarmac.model.summary import RunSummary
from tarmac.systems.displays import as_option, display, statuses_of, with_statuses

ENDED_SHOWN = 20
SHOWN = 100
"""The most lines on a terminal, unless more are asked for."""

_LIFE = frozenset(RunState)

_MODES = ("batch", "cycle", "interruptible", "burst")


@command()
@flag("--all", "-a", "everything", help="Every run, also those that ended long ago.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only runs in this state, with --as in that system's words.",
)
@click.option("--mode", type=click.Choice(_MODES), metavar="MODE", help="Only runs of this mode.")
@click.option("--user", metavar="NAME", help="Only this user's runs.")
@flag("--mine", help="Only your own runs.")
@click.option("--project", metavar="NAME", help="Only runs of this project.")
@click.option("--name", metavar="NAME", help="Only runs of this name.")
@pairs_option("--label", "labels", help="Only runs with this label.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N runs.")
@click.option("--columns", metavar="NAME,...", help="These columns of the table, as name,state,ended.")
@click.option("--sort", metavar="NAME,...", help="Sort by these columns; -NAME: the largest first.")
@flag("--expand", help="A line for each member of an array, not one for all.")
@as_option
def ls(
    *,
    everything: bool,
    states: tuple[str, ...],
    mode: str | None,
    labels: tuple[tuple[str, str], ...],
    limit: int | None,
    columns: str | None,
    sort: str | None,
    expand: bool,
    system: str | None,
    **query: Any,
) -> None:
    """List runs.

    Without options: all runs that have not ended, and the newest that have. The newest come first.
    In the words of another system, as there: all that ended in the last 14 days (a setting).
    """
    requested, exact, matches = _filter(states, mode, system)
    if columns is not None and system is not None:
        raise click.UsageError("--as has the columns of that system: leave out --columns")
    names = runview.column_names(columns) if columns is not None else None
    keys = runview.sort_keys(sort) if sort is not None else []
    client, now, terminal = connect(), time.time(), stdout_terminal()
    expand = expand or wants_json() or system is not None
    whole = any((everything, limit, keys, system, wants_json(), terminal.width is None))
    query["labels"] = dict(labels)
    filtered, older = any((states, mode, *query.values())), False
    at_once = PAGE if whole else SHOWN + 1
    if states or mode or everything or limit or system:
        query |= {"states": requested, "everything": everything}
        most = None if keys else limit
        runs = _take(client, most, query, expand=expand, at_once=at_once, matches=matches)
    else:
        runs, older = recent(client, query, expand=expand, at_once=at_once)
        query["states"] = sorted(LIVE_STATES)
    top = [] if whole else list(islice(runs, SHOWN))
    more = not whole and next(runs, None) is not None
    digests = runview.DIGEST in {*(names or ()), *(key for key, _ in keys)}
    one = partial(_line, client, expand=expand, digest=digests)
    lines: Iterator[runview.ListedRun] = map(one, runs if whole else top)
    if keys:
        lines = iter(runview.ordered([*lines], keys, now=now)[:limit])
    if wants_json():
        print_json({"runs": (_document(line, system, digest=digests) for line in lines)})
        return
    if (first := next(lines, None)) is None:
        _remark_none(client, filtered=filtered)
        return
    if system is None:
        for piece in runview.run_pieces(chain([first], lines), now=now, terminal=terminal, columns=names):
            print_text(piece)
    else:
        every = [first, *lines]
        print_text(display(system).prepared(client, [line.id for line in every]).runs(every, terminal))
    hidden = _left_out(client, top, query) if more and exact else None
    if more and hidden != 0:
        remark(f"{'there are' if hidden is None else hidden} more: add --limit N, or read them in a pipe")
    elif older or more:
        remark("older runs have ended too: tarmac ls --all")


def _remark_none(client: Client, *, filtered: bool) -> None:
    if filtered:
        remark("no such run")
    elif client.runs(limit=1, everything=True).runs:
        remark("no run is live or has ended lately: tarmac ls --all lists older ones")
    else:
        remark("no run yet: tarmac run -- echo hello")


def _left_out(client: Client, shown: Sequence[RunSummary], query: dict[str, Any]) -> int | None:
    """The number of runs that match the query, and are neither on these lines nor of their arrays."""
    arrays = [run.array_id for run in shown if run.array_id is not None]
    return client.runs(limit=1, count=True, before=shown[-1].id, without=arrays, **query).total


def _line(client: Client, run: RunSummary, *, expand: bool, digest: bool) -> runview.ListedRun:
    line = convert(run, runview.ListedRun, from_attributes=True)
    if line.array_id and not expand:
        line = runview.as_array(line, client.array(line.array_id))
    return replace(line, digest=_digest(client, line)) if digest else line


def _document(line: runview.ListedRun, system: str | None, *, digest: bool) -> dict[str, Any]:
    """A summary as JSON: with the digest if requested, and with the word of a system."""
    document: dict[str, Any] = to_builtins(line) if system is None else with_statuses([line], system)[0]
    del document["counts"]
    if not digest:
        del document[runview.DIGEST]
    return document


def _digest(client: Client, run: RunSummary) -> str | None:
    attempts = client.attempts(run.id) if run.image else []
    used = [attempt.milestones.image for attempt in attempts]
    return next((image.digest for image in reversed(used) if image), None)


def recent(
    client: Client, query: dict[str, Any], *, expand: bool, at_once: int
) -> tuple[Iterator[RunSummary], bool]:
    """All live runs and the newest ended ones, newest first; and whether older ones are left out.

    A run that ends between the first two questions is in both answers, and counts as ended.
    """
    take = partial(_take, client, expand=expand, at_once=at_once)
    live = take(None, {**query, "states": sorted(LIVE_STATES)})
    first = list(islice(live, 1))
    ended = list(take(ENDED_SHOWN + 1, {**query, "states": [RunState.ENDED]}))
    shown = [run for run in ended[:ENDED_SHOWN] if expand or not _has_live(client, run)]
    over = {run.id for run in shown}
    going_on = (run for run in chain(first, live) if run.id not in over)
    return merge(going_on, shown, key=attrgetter("id"), reverse=True), len(ended) > ENDED_SHOWN


def _has_live(client: Client, run: RunSummary) -> bool:
    """Whether the run is of an array with members that have not ended: these are listed."""
    return run.array_id is not None and not LIVE_STATES.isdisjoint(client.array(run.array_id).counts)


def _filter(
    words: Sequence[str], mode: str | None, system: str | None
) -> tuple[list[str], bool, Callable[[RunSummary], bool]]:
    """The states to request from the server ([] for all), whether every run in them is listed, and the
    condition for a run to be listed.

    A run is of one mode, and its state or outcome is one of the words. A word of the system has its meaning
    in that system.
    """
    system_words = {word.lower(): word for word in statuses_of(system)} if system else {}
    own_words = [word.lower() for word in words if word.lower() not in system_words]
    states = sorted(str(word) for word in {*RunState, *RUN_OUTCOMES})
    for word in (word for word in own_words if word not in states):
        known = sorted(system_words.values()) or states
        hint = suggestion(word, known, f"known: {', '.join(known)}")
        raise click.BadParameter(f"there is no state {word!r}; {hint}", param_hint="--state")
    statuses = {system_words[word.lower()] for word in words if word.lower() in system_words}

    def matches(run: RunSummary) -> bool:
        if mode is not None and run.mode != mode:
            return False
        if not words or not {run.state, run.outcome}.isdisjoint(own_words):
            return True
        return bool(statuses and system) and with_statuses([run], str(system))[0]["status"] in statuses

    requested = {word if word in _LIFE else RunState.ENDED for word in own_words}
    exact = mode is None and not statuses and _LIFE.issuperset(own_words)
    return [] if statuses else sorted(requested), exact, matches


def _take(
    client: Client,
    limit: int | None,
    query: dict[str, Any],
    *,
    expand: bool,
    at_once: int,
    matches: Callable[[RunSummary], bool] | None = None,
) -> Iterator[RunSummary]:
    """At most `limit` matching runs, `at_once` in a request.

    Without `expand`, an array counts as one, shown by its first member.
    """
    found = filter(matches, pages(client, min(limit or at_once, at_once), query, by_array=not expand))
    return islice(found if expand else runview.first_members(found), limit)
