"""The dialogue of a command: with the server through one client, with the user by answers and remarks.

Answers are JSON documents, tables or plain text on stdout. Used by every command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import click

import tarmac
from tarmac.cli.lazy import JSON
from tarmac.cli.views import escapes
from tarmac.cli.views.errors import render_error, render_warning
from tarmac.cli.views.table import Table, table_text
from tarmac.cli.views.terminal import stderr_terminal, stdout_terminal
from tarmac.model.errors import TarmacError

T = TypeVar("T")

LAST = "@last"
"""The newest run, in every reference to a run."""


def connect(*, start: bool = True, server_options: Sequence[str] = ()) -> tarmac.Client:
    """A client for the server of this environment, closed with the command.

    With `start`, starts the user's own server with these options if it is not running.
    """
    from tarmac.cli.views.bars import BytesBar
    from tarmac.client import Client

    bar = BytesBar.on_stderr()
    client = Client(start=start, on_notice=remark, on_upload=bar.show, server_options=server_options)
    if (command := click.get_current_context(silent=True)) is not None:
        command.call_on_close(bar.close)
        command.call_on_close(client.close)
    return client


def wants_json() -> bool:
    """Whether the command that runs answers in JSON, as `--json` asks."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(JSON))


def answer(document: Any, text: str, *, warnings: Iterable[str] = (), empty: str = "") -> None:
    """Print the answer of a command: the document with --json, else the warnings and the text for people.

    In place of an empty text, `empty` is a remark.
    """
    if wants_json():
        print_json(document)
    elif empty and not text:
        remark(empty)
    else:
        print_warnings(warnings)
        print_text(text)


def print_list(name: str, records: Sequence[T], table: Table[T], *, empty: str, document: Any = None) -> None:
    """Print records as a table; a remark if there are none; with --json `document` or `{name: records}`."""
    text = "" if wants_json() else table_text(table, records, stdout_terminal())
    answer({name: records} if document is None else document, text, empty=empty)


def print_json(document: Any) -> None:
    """One JSON document, indented; records in it are written whole, and iterators as they are read."""
    for piece in escapes.json_pieces(document):
        sys.stdout.write(piece)
    click.echo()


def print_text(text: str, *, err: bool = False) -> None:
    """Print an answer for people. The renderers, not click, decide which escapes it may contain."""
    click.echo(escapes.lines_only(text), err=err, color=True)


def tell(text: str) -> None:
    """Print a line for people at once; with --json the document at the end says the same."""
    if not wants_json():
        print_text(text)


def print_verbatim(text: str) -> None:
    """Print the content of a file: unchanged, but on a terminal without unsafe escapes."""
    click.echo(escapes.lines_only(text) if sys.stdout.isatty() else text, nl=False, color=True)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings, such as values read differently than written, one line each on stderr."""
    for warning in warnings:
        click.echo(render_warning(warning, stderr_terminal()), err=True, color=True)


def print_error(error: TarmacError) -> None:
    """Print an error on stderr, in a command that continues."""
    click.echo(render_error(error, stderr_terminal()), err=True, color=True)


def print_refusals(refusals: Sequence[TarmacError]) -> int:
    """Print these errors on stderr; return the worst of their exit codes, 0 for none."""
    for refusal in refusals:
        print_error(refusal)
    return max((refusal.exit_code for refusal in refusals), default=0)


def remark(text: str) -> None:
    """Print a remark beside the answer, on stderr."""
    click.echo(stderr_terminal().paint(f"tarmac: {escapes.lines_only(text)}", "dim"), err=True, color=True)
