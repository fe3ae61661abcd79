"""`tarmac stop`, `pause`, `resume`, `rm` and `wait`: requests to runs, or a wait for their ends."""

import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import click

from tarmac import api
from tarmac.cli import selecting
from tarmac.cli.dialogue import connect, print_json, print_refusals, print_text, remark, tell, wants_json
from tarmac.cli.options import duration, flag, json_option
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.messages import checkpoint_text, ending, lost_text, state_of, title
from tarmac.cli.views.runview import counts_text, written
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.client import Client
from tarmac.model import codec
from tarmac.model.errors import TarmacError, WaitTimeout
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.model.summary import RunSummary

_wait_option = flag("--wait", help="Wait until it is done.")


@click.command()
@selecting.selection_options
@selecting.yes_option
@flag("--now", help="Without their grace, also where they are stopping already.")
@_wait_option
@json_option
def stop(*, now: bool, **options: Any) -> None:
    """End runs for good. Their workers are asked to leave, and killed after their grace.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    states = LIVE_STATES if now else LIVE_STATES - {RunState.STOPPING}
    _act("stop", partial(Client.stop, now=now), RunState.ENDED, states, options)


@click.command()
@selecting.selection_options
@selecting.yes_option
@_wait_option
@json_option
def pause(**options: Any) -> None:
    """Pause runs: workers are asked to save and leave, their slots come free, `resume` queues them again.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    states = LIVE_STATES - {RunState.STOPPING, RunState.PAUSED, RunState.PAUSING}
    _act("pause", Client.pause, RunState.PAUSED, states, options)


@click.command()
@selecting.selection_options
@selecting.yes_option
@_wait_option
@json_option
def resume(**options: Any) -> None:
    """Queue paused runs again; they go on from their checkpoint.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    _act("resume", Client.resume, RunState.RUNNING, {RunState.PAUSED, RunState.PAUSING}, options)


@click.command()
@selecting.selection_options
@selecting.yes_option
@json_option
def rm(*, yes: bool, **options: Any) -> None:
    """Remove runs that have ended: their record, logs, work directories and artifacts. You are asked first.

    A run whose artifacts are the input of a live run is kept.
    """
    selection = selecting.selection_of(options)
    client = connect()
    refusals: list[TarmacError] = []
    found: Sequence[RunSummary | api.Run] = _named(client, selection.runs, refusals)
    if not selection.runs:
        found = selecting.matching_runs(client, selection, {RunState.ENDED}, "remove")
    if found and not yes:
        selecting.confirm("remove", found)
    removed: list[api.Run] = []
    for run in found:
        try:
            removed.append(client.remove(run.id))
        except TarmacError as error:
            refusals.append(error)
        else:
            tell(f"{title(run)} ({run.id}) was removed")
    if wants_json():
        print_json({"runs": removed})
    sys.exit(print_refusals(refusals))


@click.command()
@selecting.selection_options
@click.option(
    "--timeout", "timeout_s", type=duration, metavar="DURATION", help="Give up after this time, as 10m."
)
@json_option
def wait(*, timeout_s: float | None, **options: Any) -> None:
    """Wait until runs have ended, all of them.

    With --name, --label or --all: those that are live now. The exit code is the largest of the runs' own;
    124 after --timeout.
    """
    selection = selecting.selection_of(options)
    client = connect()
    refusals: list[TarmacError] = []
    run_ids = _selected(client, selection, refusals)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended: list[api.Run] = []
    for run_id in run_ids:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            ended.append(client.wait(run_id, timeout_s=left_s))
        except WaitTimeout as late:
            ended.append(late.run)
        if len(run_ids) > 1 and ended[-1].state == "ended":
            tell(result_text(ended[-1]))
    code = max(_print_ends(ended), print_refusals(refusals))
    sys.exit(WaitTimeout.exit_code if any(run.state != "ended" for run in ended) else code)


def _named(client: Client, references: Sequence[str], refusals: list[TarmacError]) -> list[api.Run]:
    """The runs of these names, without duplicates; an array is named and removed as a unit."""
    found: dict[str, api.Run] = {}
    for reference, run in selecting.named_runs(client, references, refusals):
        found[run.id] = run
        if selecting.means_all(run, reference):
            array = client.array(str(run.array_id))
            found[run.id] = codec.replace(run, id=array.id, name=written(array), array_index=None)
    return list(found.values())


def _act(
    verb: str,
    send: Callable[[Client, str], api.Run],
    goal: str,
    states: Collection[str],
    options: dict[str, Any],
) -> None:
    """Send a request to every selected run, even after a refusal; exit with the worst refusal's code.

    Conditions select runs in one of `states`; `goal` is the state that the request leads to.
    """
    selection, wait = selecting.selection_of(options), options["wait"]
    client = connect()
    references = selection.runs
    if not selection.runs:
        found = selecting.matching_runs(client, selection, states, verb)
        if found and not options["yes"]:
            selecting.confirm(verb, found)
        references = tuple(run.id for run in found)
    refusals: list[TarmacError] = []
    sent: list[tuple[api.Run, int]] = []
    arrays: list[api.Array] = []
    for reference in references:
        try:
            known = len(client.events(reference)) if wait else 0
            run = send(client, reference)
            if selecting.means_all(run, reference):
                arrays.append(_sent_to_all(client, goal, run, wait=wait))
            else:
                sent.append((run, known))
        except TarmacError as error:
            refusals.append(error)
    records: list[Any] = [*arrays]
    for array in arrays:
        tell(f"{written(array)} ({array.id}): {counts_text(array.counts)}")
    for run, known in sent:
        record = _once_done(client, run, goal, known) if wait else run
        records.append(record)
        if not wants_json():
            print_text(result_text(record, _checkpoints(client, record)))
    if wants_json():
        print_json({"runs": records})
    sys.exit(print_refusals(refusals))


def _sent_to_all(client: Client, goal: str, run: api.Run, *, wait: bool) -> api.Array:
    """The array after the request to all its members; with `wait`, after all of them have carried it out."""
    array_id = str(run.array_id)
    for run_id in selecting.member_ids(client, run, array_id) if wait else ():
        _once_done(client, client.run(run_id), goal, 0)
    return client.array(array_id)


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


def _selected(client: Client, selection: selecting.Selection, refusals: list[TarmacError]) -> list[str]:
    """The ids of the runs to wait for, without duplicates; the errors for unknown ones become refusals."""
    if not selection.runs:
        return [run.id for run in selecting.matching_runs(client, selection, LIVE_STATES, "wait for")]
    named = selecting.named_runs(client, selection.runs, refusals)
    return list(
        dict.fromkeys(member for text, run in named for member in selecting.member_ids(client, run, text))
    )


def _print_ends(runs: Sequence[api.Run]) -> int:
    """Print how runs ended that did not complete, and which ones still run; return the largest exit code."""
    if wants_json():
        print_json({"runs": runs})
    for run in runs:
        if run.state != "ended":
            remark(f"{title(run)} is still {run.state}")
        elif not wants_json() and run.outcome != "completed":
            print_text("\n".join(ending(run, stderr_terminal(), tail_shown=False)), err=True)
    return max((run.exit_status or 0 for run in runs), default=0)


def wait_for_array(client: Client, first: api.Run) -> int:
    """Wait for every member of a newly submitted array; return the largest of their exit codes."""
    array = client.array(str(first.array_id))
    for warning in first.warnings:
        remark(warning)
    remark(f"{written(array)} is array {array.id} of {array.total} runs")
    try:
        ended = [client.wait(run_id) for run_id in selecting.member_ids(client, first, array.id)]
    except KeyboardInterrupt:
        remark(f"detached; its runs go on. tarmac wait {array.id}; tarmac stop {array.id}")
        return INTERRUPTED
    code = _print_ends(ended)
    remark(f"{written(array)}: {counts_text(client.array(array.id).counts)}")
    return code
