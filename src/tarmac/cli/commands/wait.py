"""`tarmac wait`: block until runs have ended, for scripts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.commands.acts import result_text
from tarmac.cli.options import duration, json_option
from tarmac.cli.output import print_error, print_json, print_text, remark
from tarmac.cli.selecting import Selection, matching_runs, member_ids, selection_of, selection_options
from tarmac.cli.session import connect
from tarmac.cli.views.arrayview import counts_text, written
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.messages import ending, title
from tarmac.cli.views.terminal import stderr_terminal
from tarmac.model.errors import TarmacError, WaitTimeout
from tarmac.model.lifecycle import LIVE_STATES

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client


@click.command()
@selection_options
@click.option(
    "--timeout", "timeout_s", type=duration, metavar="DURATION", help="Give up after this time, as 10m."
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
        if not as_json and len(run_ids) > 1 and ended[-1].state == "ended":
            print_text(result_text(ended[-1]))
    if as_json:
        print_json({"runs": ended})
    terminal = stderr_terminal()
    for run in ended:
        if run.state != "ended":
            remark(f"{title(run)} is still {run.state}")
        elif not as_json and run.outcome != "completed":
            print_text("\n".join(ending(run, terminal, tail_shown=False)), err=True)
    for refusal in refusals:
        print_error(refusal)
    if any(run.state != "ended" for run in ended):
        sys.exit(WaitTimeout.exit_code)
    codes = [run.exit_status or 0 for run in ended] + [refusal.exit_code for refusal in refusals]
    sys.exit(max(codes, default=0))


def wait_for_array(client: Client, first: api.Run, *, as_json: bool) -> int:
    """Wait for every member of a newly submitted array; return the largest of their exit codes."""
    array = client.array(str(first.array_id))
    for warning in first.warnings:
        remark(warning)
    remark(f"{written(array)} is array {array.id} of {array.total} runs")
    try:
        ended = [client.wait(run_id) for run_id in member_ids(client, first, array.id)]
    except KeyboardInterrupt:
        remark(f"detached; its runs go on. tarmac wait {array.id}; tarmac stop {array.id}")
        return INTERRUPTED
    if as_json:
        print_json({"runs": ended})
    for run in ended:
        if not as_json and run.outcome != "completed":
            print_text("\n".join(ending(run, stderr_terminal(), tail_shown=False)), err=True)
    remark(f"{written(array)}: {counts_text(client.array(array.id).counts)}")
    return max((run.exit_status or 0 for run in ended), default=0)


def _named_runs(client: Client, selection: Selection) -> tuple[list[str], list[TarmacError]]:
    """The ids of the runs to wait for, without duplicates, and the errors for unknown ones."""
    if selection.by_condition:
        live = matching_runs(client, selection, LIVE_STATES)
        if not live:
            remark("there is no such run to wait for")
        return [run.id for run in live], []
    found: dict[str, None] = {}
    refusals: list[TarmacError] = []
    for reference in selection.runs:
        try:
            run = client.run(reference)
            found.update(dict.fromkeys(member_ids(client, run, reference)))
        except TarmacError as error:
            refusals.append(error)
    return list(found), refusals
