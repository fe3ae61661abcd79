"""`tarmac attach`: follow the main worker of a run, and the events of the run."""

import sys

import click

from tarmac.cli.following import follow
from tarmac.cli.options import json_option, run_argument, tail_option
from tarmac.cli.output import remark
from tarmac.cli.session import connect
from tarmac.cli.views.followview import standard_view
from tarmac.cli.views.messages import state_of
from tarmac.cli.views.metricview import report_text
from tarmac.model.resources import DEFAULT_ROLE

LINES = 20


@click.command()
@run_argument
@tail_option(LINES, "Begin with its last N lines.")
@json_option
def attach(*, run: str, tail: int, as_json: bool) -> None:
    """Follow a run as `tarmac run` does: what its first worker writes, and what happens to the run.

    Ctrl-C detaches and leaves the run alone. The exit code is the run's own. All workers: tarmac logs -f.
    """
    client = connect()
    record = client.run(run)
    if not as_json:
        remark(f"{record.name} ({record.id}) is {state_of(record)}")
        reports = client.reports(record.id, limit=1) if record.attempt else []
        if reports:
            remark(report_text(reports[-1]))
    role = record.spec["roles"][0].get("name", DEFAULT_ROLE)
    view = standard_view(as_json=as_json)
    sys.exit(follow(client, record.id, view, {"role": role, "replica": 0, "worker": 0, "tail": tail}))
