"""`tarmac why`: why a run waits, node by node, and what would let it start; or why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option, run_argument
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect, resolve
from tarmac.cli.table import Column, render
from tarmac.cli.terminal import Terminal, stdout_terminal

if TYPE_CHECKING:
    from tarmac.client.records import WhyRecord

_COLUMNS = (Column(title="NODE"), Column(title="REASON", flexible=True))


@click.command()
@run_argument
@json_option
def why(*, run: str, as_json: bool) -> None:
    """Say why a run is waiting and what would let it start, or why it ended."""
    client = connect()
    answer = client.why(resolve(client, run))
    if as_json:
        print_json(answer)
    else:
        print_text(explanation(answer, stdout_terminal()))


def explanation(answer: WhyRecord, terminal: Terminal) -> str:
    """The answer as text: the headline, what holds for the run as a whole, then node by node."""
    lines = [terminal.paint(answer["headline"], "bold")]
    lines += [f"  {reason['text']}" for reason in answer["reasons"] if reason["node"] is None]
    if answer["ahead"]:
        lines.append(f"  ahead of it: {answer['ahead']} run{'s' if answer['ahead'] != 1 else ''}")
    if answer["unblocked_by"]:
        lines.append(f"  {answer['unblocked_by']}")
    if answer["largest"]:
        lines.append(f"  the largest that fits: {answer['largest']}")
    per_node = [
        (reason["node"], reason["text"]) for reason in answer["reasons"] if reason["node"] is not None
    ]
    if per_node:
        lines += ["", render(_COLUMNS, per_node, terminal)]
    return "\n".join(lines)
