"""`tarmac top`: show nodes, slots, the queue, and the resource use of runs, updated every second."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text
from tarmac.cli.session import connect
from tarmac.cli.views.terminal import Terminal, stdout_terminal
from tarmac.cli.views.topview import page, screen
from tarmac.model.errors import TarmacError

if TYPE_CHECKING:
    from tarmac.client import Client

PERIOD_S = 1.0
LISTED = 200
"""Maximum number of runs read for each pool."""

_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_UP, _DOWN = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")


@click.command()
@click.option("--once", is_flag=True, help="Print it once, as in a pipe.")
@json_option
def top(*, once: bool, as_json: bool) -> None:
    """Show nodes, slots, the queue, and what runs use, again every second.

    q leaves, the arrows scroll. Into a pipe, or with --once, it is printed once.
    """
    client = connect()
    if as_json:
        document = {"nodes": client.nodes(), "queue": client.queue(limit=LISTED)}
        print_json({**document, "utilization": client.utilization()})
    elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_text("\n".join(_lines(client, stdout_terminal())))
    else:
        _live(client)


def _live(client: Client) -> None:
    first, keys, lines = 0, b"", [""]
    due = 0.0
    with _keys_at_once():
        while keys not in (b"q", b"Q", b"\x03"):
            first += (keys in _DOWN) - (keys in _UP)
            terminal = stdout_terminal()
            if time.monotonic() >= due:
                lines = _lines_or_problem(client, terminal)
                due = time.monotonic() + PERIOD_S
            first, text = screen(lines, first, os.get_terminal_size().lines or 24, terminal)
            sys.stdout.write(_HOME + text)
            sys.stdout.flush()
            ready, _, _ = select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))
            keys = os.read(sys.stdin.fileno(), 16) if ready else b""
            if ready and not keys:
                return  # the terminal was closed


def _lines(client: Client, terminal: Terminal) -> list[str]:
    nodes, pools, used = client.nodes(), client.queue(limit=LISTED), client.utilization()
    return page(nodes, pools, used, now=time.time(), terminal=terminal)


def _lines_or_problem(client: Client, terminal: Terminal) -> list[str]:
    """The lines of the page, or an error: a server that is briefly unreachable does not end the program."""
    try:
        return _lines(client, terminal)
    except (TarmacError, OSError) as problem:
        return [f"{problem}; trying again"]


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Read single keys on an alternate screen; restores the terminal afterwards."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)
    sys.stdout.write(_BEGIN)
    try:
        yield
    except KeyboardInterrupt:
        pass  # ends the program like q
    finally:
        sys.stdout.write(_END)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
