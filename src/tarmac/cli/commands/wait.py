"""`tarmac wait`: block until runs have ended, for scripts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.commands.acts import result_text
from tarmac.cli.options import Duration, json_option
from tarmac.cli.output import print_error, print_json, print_text, remark
from tarmac.cli.selecting import Selection, matching_runs, selection_of, selection_options
from tarmac.cli.session import connect
from tarmac.cli.views.messages import ending
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.model.errors import TarmacError, WaitTimeout
from tarmac.model.lifecycle import LIVE_STATES

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client


@click.command()
@selection_options
@click.option(
    "--timeout", "timeout_s", type=Duration(), metavar="DURATION", help="Give up after this time, as 10m."
)
@json_option
def wait(*, timeout_s: float | None, as_json: bool, **options: Any) -> None:
    """Wait until runs have ended, all of them.

    With --name, --label or --all: those that are live now. The exit code is the largest of the runs' own;
    124 after --timeout.
    """
    selection = selection_of(options)
    client = connect()
    run_ids, refusals = _named_runs(client, selection)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended: list[api.Run] = []
    for run_id in run_ids:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            ended.append(client.wait(run_id, timeout_s=left_s))
        except WaitTimeout as late:
            ended.append(late.run)
        if not as_json and len(run_ids) > 1 and ended[-1]["state"] == "ended":
            print_text(result_text(ended[-1]))
    if as_json:
        print_json({"runs": ended})
    terminal = stderr_terminal()
    for run in ended:
        if run["state"] != "ended":
            remark(f"{run['name']} is still {run['state']}")
        elif not as_json and run["outcome"] != "completed":
            click.echo("\n".join(ending(run, terminal, tail_shown=False)), err=True, color=True)
    for refusal in refusals:
        print_error(refusal)
    if any(run["state"] != "ended" for run in ended):
        sys.exit(WaitTimeout.exit_code)
    codes = [run["exit_status"] or 0 for run in ended] + [refusal.exit_code for refusal in refusals]
    sys.exit(max(codes, default=0))


def _named_runs(client: Client, selection: Selection) -> tuple[list[str], list[TarmacError]]:
    """The ids of the runs to wait for, each once, and what could not be found."""
    if selection.by_condition:
        live = matching_runs(client, selection, LIVE_STATES)
        if not live:
            remark("there is no such run to wait for")
        return [run["id"] for run in live], []
    found: dict[str, None] = {}
    refusals: list[TarmacError] = []
    for reference in selection.runs:
        try:
            found[client.run(reference)["id"]] = None
        except TarmacError as error:
            refusals.append(error)
    return list(found), refusals
