"""`tarmac why`: print why a run waits, node by node, and when it could start; or why it ended."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from tarmac import api
from tarmac.cli.dialogue import answer, connect, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import run_argument
from tarmac.cli.views.amounts import counted
from tarmac.cli.views.offerview import offers_text
from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, one_line, stdout_terminal
from tarmac.client import Client
from tarmac.model.errors import listed

NODES: Table[tuple[str, Sequence[str]]] = (
    Column("NODE", lambda reason, _: listed(reason[1], NAMES_SHOWN)),
    Column("REASON", lambda reason, _: reason[0], flexible=True),
)
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z])")

NARROWEST = 30
"""Minimum width of wrapped lines."""

NAMES_SHOWN = 4
"""Maximum number of nodes named per reason."""


@command()
@run_argument
def why(*, run: str) -> None:
    """Say why a run is waiting and what would let it start, or why it ended."""
    client = connect()
    found = client.why(run)
    lines = _last_lines(client, found) if not wants_json() else ()
    answer(found, "\n".join([explanation(found, stdout_terminal()), *lines]))


def _last_lines(client: Client, why: api.Why) -> Iterator[str]:
    """The last lines of the worker whose failure ended the run."""
    cause = client.run(why.run_id).cause if why.state == "ended" else None
    if cause is not None and cause.tail:
        yield "its last lines"
        yield from (f"  | {one_line(line)}" for line in cause.tail)
        yield f"more: tarmac logs {why.run_id}"


def explanation(why: api.Why, terminal: Terminal) -> str:
    """The answer as text: the headline, reasons for the run as a whole, then reasons node by node."""
    before = (("previous", why.previous), ("lost", why.lost))
    sentences = [f"{name}: {text}" for name, text in before if text]
    sentences += [reason.text for reason in why.reasons if reason.node is None]
    if why.ahead:
        sentences.append(f"ahead of it: {_ahead(why)}")
    if why.estimate:
        sentences += _SENTENCES.split(why.estimate.text)
    sentences += [sentence for sentence in _SENTENCES.split(why.unblocked_by) if sentence]
    if why.largest:
        sentences.append(f"the largest that fits: {why.largest}")
    sentences += why.hook_changes
    lines = [terminal.paint(why.headline, "bold")]
    lines += [line for text in sentences for line in _wrapped(text, terminal)]
    grouped = _grouped(why)
    if grouped:
        lines += ["", table_text(NODES, grouped.items(), terminal)]
    if why.offers:
        lines += ["", offers_text(why.offers, terminal)]
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


def _ahead(why: api.Why) -> str:
    """The runs before this one in the queue: "digits (r1), other (r2) and 3 more runs"."""
    first = [f"{run.name} ({run.id})" for run in why.ahead_first]
    if not first:
        return counted(why.ahead, "run")
    more = why.ahead - len(first)
    return ", ".join(first) + (f" and {counted(more, 'more run')}" if more > 0 else "")


def _grouped(why: api.Why) -> dict[str, list[str]]:
    """The nodes of each reason, in the order of the first of them."""
    nodes: dict[str, list[str]] = {}
    for reason in why.reasons:
        if reason.node is not None:
            nodes.setdefault(reason.text, []).append(reason.node)
    return nodes
