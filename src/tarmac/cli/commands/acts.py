"""`tarmac stop`, `pause` and `resume`: requests to one or several runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option, runs_argument
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect
from tarmac.cli.views.errors import render_error
from tarmac.cli.views.messages import state_of
from tarmac.cli.views.sharing import checkpoint_text, lost_text
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.model.errors import TarmacError

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

_wait_option = click.option("--wait", is_flag=True, help="Wait until it is done.")


@click.command()
@runs_argument
@_wait_option
@json_option
def stop(*, runs: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """End runs for good. Their workers are asked to leave, and killed after their grace."""
    _act(runs, lambda client, run: client.stop(run), goal="ended", wait=wait, as_json=as_json)


@click.command()
@runs_argument
@_wait_option
@json_option
def pause(*, runs: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """Pause runs: workers are asked to save and leave, their slots come free, `resume` queues them again."""
    _act(runs, lambda client, run: client.pause(run), goal="paused", wait=wait, as_json=as_json)


@click.command()
@runs_argument
@_wait_option
@json_option
def resume(*, runs: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """Queue paused runs again; they go on from their checkpoint."""
    _act(runs, lambda client, run: client.resume(run), goal="running", wait=wait, as_json=as_json)


def _act(
    references: tuple[str, ...],
    request: Callable[[Client, str], api.Run],
    *,
    goal: str,
    wait: bool,
    as_json: bool,
) -> None:
    """Send the request to every run, also after a refusal; the exit code is that of the first refusal."""
    client = connect()
    code = 0
    records: list[api.Run] = []
    for reference in references:
        try:
            records.append(_request(client, reference, request, goal if wait else None))
        except TarmacError as error:
            click.echo(render_error(error, stderr_terminal()), err=True, color=True)
            code = code or error.exit_code
    if as_json:
        print_json({"runs": records})
    else:
        for run in records:
            print_text(result_text(run, _checkpoints(client, run)))
    sys.exit(code)


def _request(
    client: Client, reference: str, request: Callable[[Client, str], api.Run], goal: str | None
) -> api.Run:
    """The run after the request; with `goal`, once it reached that state or ended."""
    known = len(client.events(reference)) if goal else 0
    run = request(client, reference)
    if goal is None or run["state"] in (goal, "ended"):
        return run
    for message in client.follow_events(run["id"], after=known):
        if message.event == "end" or (message.event == "event" and message.data["state"] == goal):
            break
    return client.run(run["id"])


def _checkpoints(client: Client, run: api.Run) -> str:
    """What a paused run lost, or what a pausing run would lose now; empty for others."""
    if run["state"] not in ("pausing", "paused") or not run["attempt"]:
        return ""
    attempts = client.attempts(run["id"])
    if run["state"] == "paused":
        lost = lost_text(attempts)
        return f"lost: {lost}" if lost else ""
    return f"its last checkpoint: {checkpoint_text(run['state'], attempts, time.time())}"


def result_text(run: api.Run, checkpoints: str = "") -> str:
    """What happens to a run after a request, and to its work."""
    name = f"{run['name']} ({run['id']})"
    sentence = {
        "pending": "is waiting to be queued",
        "queued": "is queued",
        "submitted": "waits in the queue of its cluster",
        "starting": "is starting",
        "running": "is running",
        "pausing": f"is pausing: its workers save and leave; then: tarmac resume {run['id']}",
        "paused": f"is paused; it goes on with: tarmac resume {run['id']}",
        "preempting": "is leaving its slots and will be queued again",
        "stopping": "is stopping: its workers have been asked to leave",
        "ended": f"has ended: {state_of(run)}",
    }[run["state"]]
    return f"{name} {sentence}" + (f"\n  {checkpoints}" if checkpoints else "")
