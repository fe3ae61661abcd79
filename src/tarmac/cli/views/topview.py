"""The page of `tarmac top`: total slots, nodes, the queue of each pool. Called by `commands.runs.top`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views import escapes
from tarmac.cli.views.nodeview import node_table
from tarmac.cli.views.queueview import queue_text
from tarmac.cli.views.terminal import Terminal, fit

if TYPE_CHECKING:
    from tarmac import api

NODES_SHOWN = 16
"""With more nodes than this, there is a line for each group of equal ones."""

NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
"""The terminal cuts a line that is too wide: wrapped, it would scroll the first line off the screen."""

_WAITING = frozenset({"pending", "queued", "submitted"})


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
    by_run = {each["run"]: each["nodes"] for each in utilization}
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
