"""`tarmac stop`, `pause`, `resume`, `rm` and `wait`: requests to runs, or a wait for their ends."""

import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

import click

from tarmac import api
from tarmac.cli import selecting
from tarmac.cli.dialogue import connect, print_json, print_refusals, print_text, remark, tell, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import duration, flag, together
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.messages import checkpoint_text, ending, lost_text, state_of, title
from tarmac.cli.views.runview import counts_text, written
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.client import Client
from tarmac.client.transport import error_of
from tarmac.model import codec
from tarmac.model.errors import TarmacError, WaitTimeout
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.model.summary import RunSummary

_act_options = together(
    selecting.selection_options, selecting.yes_option, flag("--wait", help="Wait until it is done.")
)


@command()
@_act_options
@flag("--now", help="Without their grace, also where they are stopping already.")
def stop(*, now: bool, **options: Any) -> None:
    """End runs for good. Their workers are asked to leave, and killed after their grace.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    states = LIVE_STATES if now else LIVE_STATES - {RunState.STOPPING}
    _act("stop", RunState.ENDED, states, {**options, "now": now})


@command()
@_act_options
def pause(**options: Any) -> None:
    """Pause runs: workers are asked to save and leave, their slots come free, `resume` queues them again.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    states = LIVE_STATES - {RunState.STOPPING, RunState.PAUSED, RunState.PAUSING}
    _act("pause", RunState.PAUSED, states, options)


@command()
@_act_options
def resume(**options: Any) -> None:
    """Queue paused runs again; they go on from their checkpoint.

    Runs selected by --name, --label or --all are listed first, and you are asked.
    """
    _act("resume", RunState.RUNNING, {RunState.PAUSED, RunState.PAUSING}, options)


@command()
@selecting.selection_options
@selecting.yes_option
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
    selecting.each_in_turn(found, client.remove, done="was removed", key="runs", refusals=refusals)


@command()
@selecting.selection_options
@click.option(
    "--timeout", "timeout_s", type=duration, metavar="DURATION", help="Give up after this time, as 10m."
)
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


def _act(command: str, goal: str, states: Collection[str], options: dict[str, Any]) -> None:
    """Send a command to all selected runs at once; exit with the worst refusal's code.

    Conditions select runs in one of `states`; `goal` is the state that the command leads to.
    """
    selection, wait = selecting.selection_of(options), options["wait"]
    client = connect()
    references: Sequence[str] = selection.runs
    if not references:
        found = selecting.matching_runs(client, selection, states, command)
        if found and not options["yes"]:
            selecting.confirm(command, found)
        references = [run.id for run in found]
    results = client.command(command, references, now=options.get("now", False))
    records: list[api.Run | api.Array] = []
    for reference, run in zip(references, (each.run for each in results), strict=True):
        if run is None:
            continue
        if selecting.means_all(run, reference):
            array = _array_of(client, goal, run, wait=wait)
            tell(f"{written(array)} ({array.id}): {counts_text(array.counts)}")
            records.append(array)
            continue
        record = _once_done(client, run.id, goal) if wait else run
        records.append(record)
        if not wants_json():
            detail = _checkpoints(client, record) if len(references) <= _MOST_DETAILED else ""
            print_text(result_text(record, detail))
    if wants_json():
        print_json({"runs": records})
    sys.exit(print_refusals([error_of(each.error) for each in results if each.error is not None]))


_MOST_DETAILED = 20
"""Maximum number of runs for which the lost work is looked up, with a request for each."""


def _array_of(client: Client, goal: str, run: api.Run, *, wait: bool) -> api.Array:
    """The array after the command to all its members; with `wait`, after all of them have carried it out."""
    array_id = str(run.array_id)
    for run_id in selecting.member_ids(client, run, array_id) if wait else ():
        _once_done(client, run_id, goal)
    return client.array(array_id)


def _once_done(client: Client, run_id: str, goal: str) -> api.Run:
    """The run after it has reached that state or ended."""
    last = client.events(run_id)[-1]
    if last.state not in (goal, "ended"):
        for message in client.follow_events(run_id, after=last.seq):
            if message.event == "end" or (message.event == "event" and message.data.state == goal):
                break
    return client.run(run_id)


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
