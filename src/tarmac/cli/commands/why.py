"""`tarmac why`: print why a run waits, node by node, and when it could start; or why it ended."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option, run_argument
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import Terminal, one_line, stdout_terminal
from tarmac.model.text import listed

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

_COLUMNS = heads("NODE, REASON", flexible="REASON")
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z])")

NARROWEST = 30
"""Minimum width of wrapped lines."""

NAMES_SHOWN = 4
"""Maximum number of nodes named per reason."""


@click.command()
@run_argument
@json_option
def why(*, run: str, as_json: bool) -> None:
    """Say why a run is waiting and what would let it start, or why it ended."""
    client = connect()
    answer = client.why(run)
    if as_json:
        print_json(answer)
    else:
        print_text("\n".join([explanation(answer, stdout_terminal()), *_last_lines(client, answer)]))


def _last_lines(client: Client, answer: api.Why) -> Iterator[str]:
    """The last lines of the worker whose failure ended the run."""
    cause = client.run(answer.run_id)["cause"] if answer.state == "ended" else None
    if cause is not None and cause["tail"]:
        yield "its last lines"
        yield from (f"  | {one_line(line)}" for line in cause["tail"])
        yield f"more: tarmac logs {answer.run_id}"


def explanation(answer: api.Why, terminal: Terminal) -> str:
    """The answer as text: the headline, reasons for the run as a whole, then reasons node by node."""
    before = (("previous", answer.previous), ("lost", answer.lost))
    sentences = [f"{name}: {text}" for name, text in before if text]
    sentences += [reason.text for reason in answer.reasons if reason.node is None]
    if answer.ahead:
        sentences.append(f"ahead of it: {_ahead(answer)}")
    if answer.estimate:
        sentences += _SENTENCES.split(answer.estimate.text)
    sentences += [sentence for sentence in _SENTENCES.split(answer.unblocked_by) if sentence]
    if answer.largest:
        sentences.append(f"the largest that fits: {answer.largest}")
    lines = [terminal.paint(answer.headline, "bold")]
    lines += [line for text in sentences for line in _wrapped(text, terminal)]
    grouped = _grouped(answer)
    if grouped:
        lines += ["", render(_COLUMNS, grouped, terminal)]
    return "\n".join(lines)


def _wrapped(text: str, terminal: Terminal) -> list[str]:
    """A sentence below the headline; on a terminal wrapped between words, with further lines indented."""
    flat = one_line(text)
    if terminal.width is None:
        return [f"  {flat}"]
    return textwrap.wrap(
        flat,
        width=max(terminal.width, NARROWEST),
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _ahead(answer: api.Why) -> str:
    """The runs before this one in the queue: "digits (r1), other (r2) and 3 more runs"."""
    count, first = answer.ahead, [f"{run.name} ({run.id})" for run in answer.ahead_first]
    if not first:
        return f"{count} run{'s' if count != 1 else ''}"
    more = count - len(first)
    return ", ".join(first) + (f" and {more} more run{'s' if more != 1 else ''}" if more > 0 else "")


def _grouped(answer: api.Why) -> list[tuple[str, str]]:
    """Nodes with their reason; nodes with the same reason are joined, in the order of their first."""
    nodes: dict[str, list[str]] = {}
    for reason in answer.reasons:
        if reason.node is not None:
            nodes.setdefault(reason.text, []).append(reason.node)
    return [(listed(names, NAMES_SHOWN), text) for text, names in nodes.items()]
