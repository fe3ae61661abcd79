"""`tarmac stop`, `pause` and `resume`: asking something of runs, several at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option, runs_argument
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect
from tarmac.cli.views.checkpoints import checkpoint_text, lost_text
from tarmac.cli.views.errors import render_error
from tarmac.cli.views.messages import state_of
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
    """End runs for good. Workers are asked first and made to leave after their grace."""
    _act(runs, lambda client, run: client.stop(run), awaited="ended", wait=wait, as_json=as_json)


@click.command()
@runs_argument
@_wait_option
@json_option
def pause(*, runs: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """Pause runs: workers are asked to save and leave, their slots come free, `resume` queues them again."""
    _act(runs, lambda client, run: client.pause(run), awaited="paused", wait=wait, as_json=as_json)


@click.command()
@runs_argument
@_wait_option
@json_option
def resume(*, runs: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """Queue paused runs again; they go on from their checkpoint."""
    _act(runs, lambda client, run: client.resume(run), awaited="running", wait=wait, as_json=as_json)


def _act(
    references: tuple[str, ...],
    ask: Callable[[Client, str], api.Run],
    *,
    awaited: str,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask it of every run, whatever becomes of the others; the exit code is that of the first refusal."""
    client = connect()
    code = 0
    asked: list[api.Run] = []
    for reference in references:
        try:
            asked.append(_ask(client, reference, ask, awaited if wait else None))
        except TarmacError as error:
            click.echo(render_error(error, stderr_terminal()), err=True, color=True)
            code = code or error.exit_code
    if as_json:
        print_json({"runs": asked})
    else:
        for run in asked:
            print_text(told(run, _checkpoints(client, run)))
    sys.exit(code)


def _ask(
    client: Client, reference: str, ask: Callable[[Client, str], api.Run], awaited: str | None
) -> api.Run:
    """The run after it was asked; with `awaited`, once that state was reached or it ended."""
    known = len(client.events(reference)) if awaited else 0
    run = ask(client, reference)
    if awaited is None or run["state"] in (awaited, "ended"):
        return run
    for message in client.follow_events(run["id"], after=known):
        if message.event == "end" or (message.event == "event" and message.data["state"] == awaited):
            break
    return client.run(run["id"])


def _checkpoints(client: Client, run: api.Run) -> str:
    """What a run that leaves its slots has lost, or would lose as things are; nothing for others."""
    if run["state"] not in ("pausing", "paused") or not run["attempt"]:
        return ""
    attempts = client.attempts(run["id"])
    if run["state"] == "paused":
        lost = lost_text(attempts)
        return f"lost: {lost}" if lost else ""
    return f"its last checkpoint: {checkpoint_text(run['state'], attempts, time.time())}"


def told(run: api.Run, checkpoints: str = "") -> str:
    """What happens now to a run of which something was asked, and to its work."""
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
