"""`tarmac top`: show nodes, slots, the queue, and the resource use of runs, updated every second."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tarmac import api
from tarmac.cli.commands.nodes import node_table
from tarmac.cli.dialogue import connect, print_json, print_text, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag
from tarmac.cli.views import escapes
from tarmac.cli.views.queueview import queue_text
from tarmac.cli.views.terminal import Terminal, fit, stdout_terminal
from tarmac.client import Client
from tarmac.model.errors import TarmacError

PERIOD_S = 1.0
LISTED = 200
"""Maximum number of runs read for each pool."""

NODES_SHOWN = 16
"""With more nodes than this, there is a line for each group of equal ones."""

NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
"""The terminal cuts a line that is too wide: wrapped, it would scroll the first line off the screen."""

_WAITING = frozenset({"pending", "queued", "submitted"})

_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_UP, _DOWN = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")


@command()
@flag("--once", help="Print it once, as in a pipe.")
def top(*, once: bool) -> None:
    """Show nodes, slots, the queue, and what runs use, again every second.

    q leaves, the arrows scroll. Into a pipe, or with --once, it is printed once.
    """
    client = connect()
    if wants_json():
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


def page(
    nodes: Sequence[api.Node],
    pools: Sequence[api.QueuePool],
    utilization: Sequence[api.RunUtilization],
    *,
    now: float,
    terminal: Terminal,
) -> list[str]:
    """The lines of the page; the first summarises everything."""
    used, slots = sum(node.slots_used for node in nodes), sum(node.slots for node in nodes)
    entries = [entry for pool in pools for entry in pool.runs]
    waiting = sum(entry.state in _WAITING for entry in entries)
    holding = len(entries) - waiting
    listed = f"{holding} {'run holds' if holding == 1 else 'runs hold'} slots, {waiting} wait"
    hidden = sum(pool.total for pool in pools) - len(entries)
    more = f", {hidden} more" if hidden else ""
    machines = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    head = terminal.paint(f"{used} of {slots} slots in use on {machines}; {listed}{more}", "bold")
    parts = [head, node_table(nodes, terminal, grouped=len(nodes) > NODES_SHOWN)] if nodes else [head]
    with_runs = [pool for pool in pools if pool.runs]
    by_run = {each.run: each.nodes for each in utilization}
    queues = queue_text(with_runs, now=now, terminal=terminal, used=by_run)
    parts.append(queues or "nothing is queued or running")
    return "\n\n".join(parts).splitlines()


def screen(lines: Sequence[str], first: int, rows: int, terminal: Terminal) -> tuple[int, str]:
    """The first line shown, adjusted to the page, and the text of `rows` lines, the last with the keys."""
    room = max(rows - 1, 1)
    first = max(0, min(first, len(lines) - room))
    shown = list(lines[first : first + room])
    left = len(lines) - first - len(shown)
    keys = "q: leave" + (f"   arrows: {left} more lines below" if left else "   arrows: up" if first else "")
    shown += [""] * (room - len(shown))
    foot = terminal.paint(fit(keys, terminal.width or 80), "dim")
    text = "\r\n".join(f"{escapes.lines_only(line)}\x1b[K" for line in [*shown, foot])
    return first, f"{NO_WRAP}{text}{WRAP}"
