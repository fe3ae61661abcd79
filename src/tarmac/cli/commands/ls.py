"""`tarmac ls`: print a table of runs. By default all live runs, and the newest ended ones."""

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import click
from msgspec import convert, to_builtins

from tarmac.cli.dialogue import connect, print_json, print_text, remark, wants_json
from tarmac.cli.options import flag, json_option, pairs_option
from tarmac.cli.selecting import pages
from tarmac.cli.views import runview
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.codec import replace
from tarmac.model.errors import suggestion
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.model.summary import RunSummary
from tarmac.systems.displays import as_option, display, statuses_of, with_statuses

ENDED_SHOWN = 20

_LIFE = frozenset(RunState)

_MODES = ("batch", "cycle", "interruptible", "burst")


@click.command()
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
@json_option
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
    requested, matches = _filter(states, mode, system)
    if columns is not None and system is not None:
        raise click.UsageError("--as has the columns of that system: leave out --columns")
    names = runview.column_names(columns) if columns is not None else None
    keys = runview.sort_keys(sort) if sort is not None else []
    client = connect()
    expand = expand or wants_json() or system is not None
    query["labels"] = dict(labels)
    if states or mode or everything or limit or system:
        whole = {**query, "states": requested, "everything": everything}
        runs = _take(client, None if keys else limit, whole, expand=expand, matches=matches)
        hidden = False
    else:
        runs, hidden = recent(client, query, expand=expand)
    lines = convert(runs, list[runview.ListedRun], from_attributes=True)
    if not expand:
        lines = [runview.as_array(line, client.array(line.id)) if line.array_id else line for line in lines]
    digests = runview.DIGEST in {*(names or ()), *(key for key, _ in keys)}
    if digests:
        lines = [replace(line, digest=_digest(client, line)) for line in lines]
    lines = runview.ordered(lines, keys, now=time.time())[:limit] if keys else lines
    if wants_json():
        print_json({"runs": _documents(lines, system, digests=digests)})
        return
    if not runs:
        if any((states, mode, *query.values())):
            remark("no such run")
        elif client.runs(limit=1, everything=True).runs:
            remark("no run is live or has ended lately: tarmac ls --all lists older ones")
        else:
            remark("no run yet: tarmac run -- echo hello")
        return
    terminal = stdout_terminal()
    if system is None:
        print_text(runview.run_table(lines, now=time.time(), terminal=terminal, columns=names))
    else:
        print_text(display(system).prepared(client, [line.id for line in lines]).runs(lines, terminal))
    if hidden:
        remark("older runs have ended too: tarmac ls --all")


def _documents(
    lines: Sequence[runview.ListedRun], system: str | None, *, digests: bool
) -> list[dict[str, Any]]:
    """The summaries as JSON: with the digests if requested, and with the word of a system."""
    documents: list[dict[str, Any]] = to_builtins(lines) if system is None else with_statuses(lines, system)
    for each in documents:
        del each["counts"]
        if not digests:
            del each[runview.DIGEST]
    return documents


def _digest(client: Client, run: RunSummary) -> str | None:
    attempts = client.attempts(run.id) if run.image else []
    used = [attempt.milestones.image for attempt in attempts]
    return next((image.digest for image in reversed(used) if image), None)


def recent(client: Client, query: dict[str, Any], *, expand: bool) -> tuple[list[RunSummary], bool]:
    """All live runs and the newest ended ones, newest first; and whether older ones are left out.

    A run that ends between the two questions is in both answers, and counts as ended.
    """
    live = _take(client, None, {**query, "states": sorted(LIVE_STATES)}, expand=expand)
    ended = _take(client, ENDED_SHOWN + 1, {**query, "states": [RunState.ENDED]}, expand=expand)
    arrays = {run.array_id for run in live} - {None}
    ended = [run for run in ended if expand or run.array_id not in arrays]
    over = {run.id for run in ended}
    shown = [*(run for run in live if run.id not in over), *ended[:ENDED_SHOWN]]
    shown.sort(key=lambda run: (run.created_at, run.id), reverse=True)
    return shown, len(ended) > ENDED_SHOWN


def _filter(
    words: Sequence[str], mode: str | None, system: str | None
) -> tuple[list[str], Callable[[RunSummary], bool]]:
    """The states to request from the server ([] for all), and the condition for a run to be listed.

    A run is of one mode, and its state or outcome is one of the words. A word of the system has its meaning
    in that system.
    """
    system_words = {word.lower(): word for word in statuses_of(system)} if system else {}
    own_words = [word.lower() for word in words if word.lower() not in system_words]
    states = _states() if own_words else []
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
    return [] if statuses else sorted(requested), matches


def _states() -> list[str]:
    """The words of `--state`: the states and the outcomes of a run."""
    from tarmac.model.progress import RUN_OUTCOMES  # most listings need only the JSON of runs

    return sorted(str(word) for word in {*RunState, *RUN_OUTCOMES})


def _take(
    client: Client,
    limit: int | None,
    query: dict[str, Any],
    *,
    expand: bool,
    matches: Callable[[RunSummary], bool] | None = None,
) -> list[RunSummary]:
    """At most `limit` matching runs; without `expand`, an array counts as one, shown by its first member."""
    found = filter(matches, pages(client, limit if expand else None, query))
    return list(islice(found if expand else runview.first_members(found), limit))
