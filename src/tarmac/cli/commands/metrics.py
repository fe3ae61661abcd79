"""`tarmac metrics`: what a run reported of its progress, as a table with a column per metric."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.amounts import age, number
from tarmac.cli.options import json_option, run_argument
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect, resolve
from tarmac.cli.table import Column, render
from tarmac.cli.terminal import Terminal, stdout_terminal

if TYPE_CHECKING:
    from tarmac.client.records import ReportRecord

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
    reports = client.reports(resolve(client, run))
    if as_json:
        print_json({"reports": reports})
        return
    if not reports:
        remark("it has reported nothing; tarmac.report(step=..., loss=...) in its code does")
        return
    shown = reports if everything else reports[-LAST_SHOWN:]
    print_text(report_table(shown, now=time.time(), terminal=stdout_terminal()))
    if len(shown) < len(reports):
        remark(f"{len(reports) - len(shown)} earlier reports: tarmac metrics --all {run}")


def report_table(reports: Sequence[ReportRecord], *, now: float, terminal: Terminal) -> str:
    """A row per report, a column per metric."""
    names = sorted({name for report in reports for name in report["metrics"]})
    heads = [
        Column(title="WHEN", right=True),
        Column(title="NODE", optional=True),
        Column(title="STEP", right=True),
        Column(title="PROGRESS", right=True),
        *(Column(title=name, right=True, optional=True) for name in names),
    ]
    several_nodes = len({report["node"] for report in reports}) > 1
    rows = (
        (
            age(report["at"], now),
            report["node"] if several_nodes else "",
            str(report["step"]) if report["step"] is not None else "",
            f"{report['progress']:.0%}" if report["progress"] is not None else "",
            *(number(report["metrics"][name]) if name in report["metrics"] else "" for name in names),
        )
        for report in reports
    )
    return render(heads, rows, terminal)
