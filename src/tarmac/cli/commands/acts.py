"""`tarmac stop`, `pause`, `resume` and `rm`: requests to one or several runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_error, print_json, print_text, remark
from tarmac.cli.selecting import (
    Selection,
    confirm,
    matching_runs,
    means_all,
    member_ids,
    selection_of,
    selection_options,
    yes_option,
)
from tarmac.cli.session import connect
from tarmac.cli.views.arrayview import counts_text, written
from tarmac.cli.views.messages import state_of, title
from tarmac.cli.views.sharing import checkpoint_text, lost_text
from tarmac.model import codec
from tarmac.model.errors import TarmacError
from tarmac.model.lifecycle import LIVE_STATES, RunState

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client
    from tarmac.model.summary import RunSummary

_wait_option = click.option("--wait", is_flag=True, help="Wait until it is done.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Act:
    """A request: its verb, its client method, the state it leads to, and the run states that it affects."""

    verb: str
    send: Callable[[Client, str], api.Run]
    goal: str
    states: Collection[str]


_STOP = _Act(
    verb="stop",
    send=lambda client, run: client.stop(run),
    goal=RunState.ENDED,
    states=LIVE_STATES - {RunState.STOPPING},
)
_STOP_NOW = replace(_STOP, send=lambda client, run: client.stop(run, now=True), states=LIVE_STATES)
_PAUSE = _Act(
    verb="pause",
    send=lambda client, run: client.pause(run),
    goal=RunState.PAUSED,
    states=LIVE_STATES - {RunState.STOPPING, RunState.PAUSED, RunState.PAUSING},
)
_RESUME = _Act(
    verb="resume",
    send=lambda client, run: client.resume(run),
    goal=RunState.RUNNING,
    states={RunState.PAUSED, RunState.PAUSING},
)


@click.command()
@selection_options
@yes_option
@click.option("--now", is_flag=True, help="Without their grace, also where they are stopping already.")
@_wait_option
@json_option
def stop(*, now: bool, **options: Any) -> None:
    """End runs for good. Their workers are asked to leave, and killed after their grace.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    _act(_STOP_NOW if now else _STOP, selection_of(options), **options)


@click.command()
@selection_options
@yes_option
@_wait_option
@json_option
def pause(**options: Any) -> None:
    """Pause runs: workers are asked to save and leave, their slots come free, `resume` queues them again.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    _act(_PAUSE, selection_of(options), **options)


@click.command()
@selection_options
@yes_option
@_wait_option
@json_option
def resume(**options: Any) -> None:
    """Queue paused runs again; they go on from their checkpoint.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    _act(_RESUME, selection_of(options), **options)


@click.command()
@selection_options
@yes_option
@json_option
def rm(*, yes: bool, as_json: bool, **options: Any) -> None:
    """Remove runs that have ended: their record, logs, work directories and artifacts. You are asked first.

    A run whose artifacts are the input of a live run is kept.
    """
    selection = selection_of(options)
    client = connect()
    refusals: list[TarmacError] = []
    found: Sequence[RunSummary | api.Run] = (
        matching_runs(client, selection, {RunState.ENDED})
        if selection.by_condition
        else _named(client, selection.runs, refusals)
    )
    if found and not yes:
        confirm("remove", found)
    removed: list[api.Run] = []
    for run in found:
        try:
            removed.append(client.remove(run.id))
        except TarmacError as error:
            refusals.append(error)
        else:
            if not as_json:
                print_text(f"{title(run)} ({run.id}) was removed")
    if as_json:
        print_json({"runs": removed})
    if selection.by_condition and not found:
        remark("there is no such run to remove")
    _end(refusals)


def _named(client: Client, references: Sequence[str], refusals: list[TarmacError]) -> list[Any]:
    """The runs of these names, without duplicates; unknown names are appended to the refusals."""
    found: dict[str, Any] = {}
    for reference in references:
        try:
            run = client.run(reference)
            found[run.id] = _all_members(client, run) if means_all(run, reference) else run
        except TarmacError as error:
            refusals.append(error)
    return list(found.values())


def _all_members(client: Client, run: api.Run) -> api.Run:
    """The array of a run, named and removed as a unit."""
    array = client.array(str(run.array_id))
    return codec.replace(run, id=array.id, name=written(array), array_index=None)


def _end(refusals: Sequence[TarmacError]) -> NoReturn:
    """Print the refusals, and exit with the worst exit code."""
    for refusal in refusals:
        print_error(refusal)
    sys.exit(max((refusal.exit_code for refusal in refusals), default=0))


def _act(act: _Act, selection: Selection, *, yes: bool, wait: bool, as_json: bool) -> None:
    """Send the request to every run, even after a refusal; exit with the worst refusal's code."""
    client = connect()
    references = selection.runs or _confirmed(client, act, selection, yes=yes)
    refusals: list[TarmacError] = []
    sent: list[tuple[api.Run, int]] = []
    arrays: list[api.Array] = []
    for reference in references:
        try:
            known = len(client.events(reference)) if wait else 0
            run = act.send(client, reference)
            if means_all(run, reference):
                arrays.append(_sent_to_all(client, act, run, wait=wait))
            else:
                sent.append((run, known))
        except TarmacError as error:
            refusals.append(error)
    records: list[Any] = [*arrays]
    for array in arrays if not as_json else ():
        print_text(f"{written(array)} ({array.id}): {counts_text(array.counts)}")
    for run, known in sent:
        record = _once_done(client, run, act.goal, known) if wait else run
        records.append(record)
        if not as_json:
            print_text(result_text(record, _checkpoints(client, record)))
    if as_json:
        print_json({"runs": records})
    _end(refusals)


def _sent_to_all(client: Client, act: _Act, run: api.Run, *, wait: bool) -> api.Array:
    """The array after the request to all its members; with `wait`, after all of them have carried it out."""
    array_id = str(run.array_id)
    for run_id in member_ids(client, run, array_id) if wait else ():
        _once_done(client, client.run(run_id), act.goal, 0)
    return client.array(array_id)


def _confirmed(client: Client, act: _Act, selection: Selection, *, yes: bool) -> tuple[str, ...]:
    """The ids of the runs that meet the conditions, after the user has confirmed."""
    found = matching_runs(client, selection, act.states)
    if not found:
        remark(f"there is no such run to {act.verb}")
    elif not yes:
        confirm(act.verb, found)
    return tuple(run.id for run in found)


def _once_done(client: Client, run: api.Run, goal: str, known: int) -> api.Run:
    """The run after it has reached that state or ended; `known` events of its history are older."""
    if run.state in (goal, "ended"):
        return run
    for message in client.follow_events(run.id, after=known):
        if message.event == "end" or (message.event == "event" and message.data.state == goal):
            break
    return client.run(run.id)


def _checkpoints(client: Client, run: api.Run) -> str:
    """The work that a paused run lost, or that a pausing run would lose now; empty for others."""
    if run.state not in ("pausing", "paused") or not run.attempt:
        return ""
    attempts = client.attempts(run.id)
    if run.state == "paused":
        lost = lost_text(attempts)
        return f"lost: {lost}" if lost else ""
    return f"its last checkpoint: {checkpoint_text(run.state, attempts, time.time())}"


def result_text(run: api.Run, checkpoints: str = "") -> str:
    """The effect of a request on a run and on its work."""
    name = f"{title(run)} ({run.id})"
    sentence = {
        "pending": "is waiting to be queued",
        "queued": "is queued",
        "submitted": "waits in the queue of its cluster",
        "starting": "is starting",
        "running": "is running",
        "pausing": f"is pausing: its workers save and leave; then: tarmac resume {run.id}",
        "paused": f"is paused; it goes on with: tarmac resume {run.id}",
        "preempting": "is leaving its slots and will be queued again",
        "stopping": "is stopping: its workers have been asked to leave",
        "ended": f"has ended: {state_of(run)}",
    }[run.state]
    return f"{name} {sentence}" + (f"\n  {checkpoints}" if checkpoints else "")
