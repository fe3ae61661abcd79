"""`tarmac doctor`: the features that work on this machine, those that do not, and the effect on runs."""

from __future__ import annotations

import os

import click

from tarmac.cli.doctor.finding import Finding, State
from tarmac.cli.doctor.machine import machine_findings
from tarmac.cli.doctor.programs import program_findings
from tarmac.cli.doctor.service import has_ray_elsewhere, server_findings
from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect
from tarmac.cli.views.terminal import Terminal, stdout_terminal

_STYLES = {State.OK: "green", State.WARN: "yellow", State.MISSING: "red"}
_STATE_COLUMNS = 9
_WHAT_COLUMNS = 19


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Say what works on this machine and on the clusters of its server, and what to do about the rest.

    Nothing is started or changed. The exit code is 1 if something is missing that every run needs.
    """
    client = connect(start=False)
    found = [
        *machine_findings(client.home),
        *program_findings(ray_elsewhere=has_ray_elsewhere(client)),
        *server_findings(client, url=os.environ.get("TARMAC_URL") or None),
    ]
    if as_json:
        print_json({"ok": not _broken(found), "findings": [_record(finding) for finding in found]})
    else:
        terminal = stdout_terminal()
        print_text("\n".join(finding_text(finding, terminal) for finding in found))
    if _broken(found):
        ctx.exit(1)


def finding_text(finding: Finding, terminal: Terminal) -> str:
    """The line of a finding and, unless it is ok, a line with its meaning."""
    state = terminal.paint(finding.state.ljust(_STATE_COLUMNS), _STYLES[finding.state])
    lines = [f"{state}{finding.what.ljust(_WHAT_COLUMNS)} {finding.text}"]
    if finding.meaning:
        lines.append(" " * _STATE_COLUMNS + terminal.paint(f"{'':{_WHAT_COLUMNS}} {finding.meaning}", "dim"))
    return "\n".join(lines)


def _broken(found: list[Finding]) -> bool:
    return any(finding.stops_runs for finding in found)


def _record(finding: Finding) -> dict[str, object]:
    return {
        "what": finding.what,
        "state": str(finding.state),
        "text": finding.text,
        "meaning": finding.meaning,
        "needed": finding.needed,
    }
