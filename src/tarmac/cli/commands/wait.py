"""`tarmac wait`: block until runs have ended, for scripts."""

from __future__ import annotations

import sys
import time

import click

from tarmac.cli.options import Duration, json_option, runs_argument
from tarmac.cli.output import print_json, remark
from tarmac.cli.session import connect
from tarmac.cli.views.messages import ending
from tarmac.cli.views.terminal import stderr_terminal

TIMED_OUT = 124
"""Exit code when the time was up first, as the program `timeout` has it."""


@click.command()
@runs_argument
@click.option(
    "--timeout", "timeout_s", type=Duration(), metavar="DURATION", help="Give up after this time, as 10m."
)
@json_option
def wait(*, runs: tuple[str, ...], timeout_s: float | None, as_json: bool) -> None:
    """Wait until runs have ended.

    The exit code is that of the first, in the order given, that did not complete; 124 after --timeout.
    """
    client = connect()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended = []
    for run_id in dict.fromkeys([client.run(reference)["id"] for reference in runs]):
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended.append(client.wait(run_id, timeout_s=left_s))
    if as_json:
        print_json({"runs": ended})
    terminal = stderr_terminal()
    for run in ended:
        if run["state"] != "ended":
            remark(f"{run['name']} is still {run['state']}")
        elif not as_json and run["outcome"] != "completed":
            click.echo("\n".join(ending(run, terminal, tail_shown=False)), err=True, color=True)
    if any(run["state"] != "ended" for run in ended):
        sys.exit(TIMED_OUT)
    sys.exit(next((run["exit_status"] for run in ended if run["exit_status"]), 0))
