"""`tarmac wait`: block until runs have ended, for scripts."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from tarmac import api
from tarmac.cli import selecting
from tarmac.cli.commands.acts import result_text
from tarmac.cli.options import duration, json_option
from tarmac.cli.output import print_json, print_refusals, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.arrayview import counts_text, written
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.messages import ending, title
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.client import Client
from tarmac.model.errors import TarmacError, WaitTimeout
from tarmac.model.lifecycle import LIVE_STATES


@click.command()
@selecting.selection_options
@click.option(
    "--timeout", "timeout_s", type=duration, metavar="DURATION", help="Give up after this time, as 10m."
)
@json_option
def wait(*, timeout_s: float | None, as_json: bool, **options: Any) -> None:
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
        if not as_json and len(run_ids) > 1 and ended[-1].state == "ended":
            print_text(result_text(ended[-1]))
    code = max(_print_ends(ended, as_json=as_json), print_refusals(refusals))
    sys.exit(WaitTimeout.exit_code if any(run.state != "ended" for run in ended) else code)


def _selected(client: Client, selection: selecting.Selection, refusals: list[TarmacError]) -> list[str]:
    """The ids of the runs to wait for, without duplicates; the errors for unknown ones become refusals."""
    if selection.by_condition:
        return [run.id for run in selecting.matching_runs(client, selection, LIVE_STATES, "wait for")]
    named = selecting.named_runs(client, selection.runs, refusals)
    return list(
        dict.fromkeys(member for text, run in named for member in selecting.member_ids(client, run, text))
    )


def _print_ends(runs: Sequence[api.Run], *, as_json: bool) -> int:
    """Print how runs ended that did not complete, and which ones still run; return the largest exit code."""
    if as_json:
        print_json({"runs": runs})
    for run in runs:
        if run.state != "ended":
            remark(f"{title(run)} is still {run.state}")
        elif not as_json and run.outcome != "completed":
            print_text("\n".join(ending(run, stderr_terminal(), tail_shown=False)), err=True)
    return max((run.exit_status or 0 for run in runs), default=0)


def wait_for_array(client: Client, first: api.Run, *, as_json: bool) -> int:
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
    code = _print_ends(ended, as_json=as_json)
    remark(f"{written(array)}: {counts_text(client.array(array.id).counts)}")
    return code
