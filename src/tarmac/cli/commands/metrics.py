"""`tarmac metrics`: the metrics that a run reported, as a table with a column per metric."""

from __future__ import annotations

import time

import click

from tarmac.cli.options import json_option, run_argument
from tarmac.cli.output import print_json, print_text, print_warnings, remark
from tarmac.cli.session import connect
from tarmac.cli.views.metricview import not_finite, report_table
from tarmac.cli.views.terminal import stdout_terminal

LAST_SHOWN = 20


@click.command()
@click.option(
    "--all", "-a", "everything", is_flag=True, help=f"Every report, not only the last {LAST_SHOWN}."
)
@run_argument
@json_option
def metrics(*, run: str, everything: bool, as_json: bool) -> None:
    """Show the progress and metrics a run reported (tarmac.report in its code)."""
    client = connect()
    reports = client.reports(run)
    if as_json:
        print_json({"reports": reports})
        return
    if not reports:
        remark("this run has reported no metrics; call tarmac.report(step=..., loss=...) in its code")
        return
    shown = reports if everything else reports[-LAST_SHOWN:]
    print_text(report_table(shown, now=time.time(), terminal=stdout_terminal()))
    if len(shown) < len(reports):
        remark(f"{len(reports) - len(shown)} earlier reports: tarmac metrics --all {run}")
    print_warnings(list(not_finite(reports)))
