"""The queue as tables, one for each pool, and what runs use at present. Used by `queue`, `top` and `show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from tarmac import api
from tarmac.cli.views.amounts import age, number, size, until
from tarmac.cli.views.messages import member_name, state_cell
from tarmac.cli.views.runview import counts_text
from tarmac.cli.views.table import Cell, Column, Table, table_pieces
from tarmac.cli.views.terminal import Terminal
from tarmac.model.resources import NodeUtilization

_POLICIES = {
    "priority": "by priority",
    "fair_share": "by fair share",
    "least_attained": "what has run least first",
}


LISTED = 40
"""Maximum number of lines per pool on a terminal."""


Used = Mapping[str, Sequence[NodeUtilization]]
"""The current resource use of runs, by id."""


def queue_text(
    pools: Sequence[api.QueuePool], *, now: float, terminal: Terminal, used: Used = MappingProxyType({})
) -> str:
    """A table for each pool; resource use is shown for runs in `used`."""
    tables = (queue_pieces([pool], now=now, terminal=terminal, used=used) for pool in pools)
    return "\n\n".join("\n".join(pieces) for pieces in tables)


def queue_pieces(
    pages: Iterable[api.QueuePool], *, now: float, terminal: Terminal, used: Used = MappingProxyType({})
) -> Iterator[str]:
    """The table of a pool page by page: a heading with the rules of its order, the runs, the number left out.

    An array that several pages have is printed once.
    """
    rest = iter(pages)
    last = next(rest)
    yield _heading(last, terminal)
    table = _queue_table(used, shared=last.policy == "fair_share")
    if not last.runs:
        yield "  nothing runs or waits here"
        return
    listed, known = 0, set[str]()

    def lines() -> Iterator[list[api.QueueEntry]]:
        nonlocal last, listed
        for page in chain([last], rest):
            last = page
            new = [run for run in last.runs if run.id not in known]
            known.update(run.id for run in new if run.members)
            listed += sum(sum(run.members.values()) or 1 for run in new)
            yield new

    yield from table_pieces(table, lines(), terminal, now=now)
    if (hidden := last.total - listed) > 0:
        yield terminal.paint(f"{hidden} more: tarmac queue --all --pool {last.pool}", "dim")


def start_text(estimate: api.Estimate | None, now: float) -> str:
    """The likely start of a run: "in 12 min", "unknown"; empty for one that has its slots."""
    if estimate is None:
        return ""
    return "unknown" if estimate.start_at is None else until(estimate.start_at, now)


def _heading(pool: api.QueuePool, terminal: Terminal) -> str:
    policy = _POLICIES.get(pool.policy, pool.policy)
    rule = "with preemption" if pool.preemption else "without preemption"
    name = terminal.paint(f"pool {pool.pool} of {pool.cluster}", "bold")
    return f"{name}: {policy}, {rule}"


def _queue_table(used: Used, *, shared: bool) -> Table[api.QueueEntry]:
    """The columns of a queue; `shared`: its pool orders runs by fair shares."""
    return (
        Column("#", lambda run, _: run.number, right=True),
        Column("ID", lambda run, _: run.id),
        Column("TYPE", lambda run, _: run.mode, optional=True),
        Column("NAME", lambda run, _: Cell(_name(run), "bold"), flexible=True),
        Column("WEIGHT", lambda run, _: number(run.weight), right=True)
        if shared
        else Column("PRIORITY", lambda run, _: run.priority, right=True, optional=True),
        Column("SUBMITTED", lambda run, now: age(run.submitted_at, now), right=True, optional=True),
        Column("SLOTS", lambda run, _: f"{run.slots_acquired}/{run.slots_needed}", right=True),
        Column("STATE", _state),
        Column("CPUS", lambda run, _: used_amounts(used.get(run.id, ()))[0], right=True),
        Column("MEMORY", lambda run, _: used_amounts(used.get(run.id, ()))[1], right=True),
        Column("GPU", lambda run, _: used_amounts(used.get(run.id, ()))[2], right=True),
        Column("GPU MEMORY", lambda run, _: used_amounts(used.get(run.id, ()))[3], right=True),
        Column("USER", lambda run, _: run.user, optional=True),
        Column("EST. START", _start),
    )


def _name(run: api.QueueEntry) -> str:
    members = sum(run.members.values())
    return f"{run.name}[{members} runs]" if members else member_name(run.name, run.array_index)


def _state(run: api.QueueEntry, now: float) -> Cell:
    """The run's state; if it waits, the runs it waits for, or the time of its next try."""
    cell = state_cell(counts_text(run.members) or run.state)
    if run.awaits:
        more = f" +{len(run.awaits) - 1}" if len(run.awaits) > 1 else ""
        return Cell(f"after {run.awaits[0].name}{more}", cell.style)
    if run.retry_at is None or run.retry_at <= now:
        return cell
    return Cell(f"retry {until(run.retry_at, now)}", cell.style)


def place_text(place: int | None, waiting: int | None) -> str:
    """The place in the queue of its cluster; "" if unknown."""
    return f"place {place} of {waiting}" if place is not None else ""


def _start(run: api.QueueEntry, now: float) -> Cell | str:
    """The likely start; in a cluster's own queue also the reason for the delay, in that system's word."""
    native = run.native if run.estimate is not None else None
    if native is not None and native.stuck:
        return Cell(f"never: {native.reason}", "red")
    words = [native.reason, place_text(native.place, native.waiting)] if native is not None else []
    reason = f" ({', '.join(filter(None, words))})" if any(words) else ""
    return f"{start_text(run.estimate, now)}{reason}"


def used_amounts(nodes: Sequence[NodeUtilization]) -> tuple[str, ...]:
    """The processors, memory, GPUs and memory of GPUs used on all nodes together; "" for unknown values."""
    if not nodes:
        return ("", "", "", "")
    gpus = [gpu for node in nodes for gpu in node.gpus]
    used = sum(gpu.used_bytes for gpu in gpus)
    total = sum(gpu.total_bytes for gpu in gpus)
    busy = sum(gpu.busy_percent for gpu in gpus)
    return (
        f"{sum(node.cpus for node in nodes):.1f}",
        size(sum(node.memory_bytes for node in nodes)),
        f"{busy / len(gpus):.0f} %" if gpus else "",
        f"{size(used)} of {size(total)}" if gpus else "",
    )


def use_text(nodes: Sequence[NodeUtilization]) -> str:
    """The same as one text; "" if all values are unknown."""
    if not nodes:
        return ""
    cpus, memory, busy, of_gpus = used_amounts(nodes)
    count = sum(len(node.gpus) for node in nodes)
    named = f"{count} GPUs" if count > 1 else "GPU"
    gpus = f"; {named} {busy} busy, {of_gpus}" if count else ""
    return f"{cpus} CPUs, {memory} of memory{gpus}"
