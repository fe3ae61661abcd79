"""`tarmac nodes`: list the machines, their load and their runs; drain and reserve them."""

from __future__ import annotations

from collections.abc import Sequence
from time import localtime, strftime, time
from typing import TYPE_CHECKING, Any

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, remark, wants_json
from tarmac.cli.lazy import Subcommands, calls_subcommand
from tarmac.cli.options import complete_node, duration, flag, local_time, together
from tarmac.cli.views.amounts import number, size
from tarmac.cli.views.messages import state_cell
from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, stdout_terminal

if TYPE_CHECKING:
    from tarmac.model.reservations import NodeReservation

NODES_SHOWN = 20

LISTED = 40
"""On a terminal, more nodes than this are shown in groups."""


def _reason(node: api.Node) -> str:
    """Why a node takes no work; for a drained one also by whom and when; then its first reservation."""
    parts = [node.reason]
    if (drain := node.drain) is not None:
        at = _local(drain.at) if drain.at is not None else ""
        whence = ", ".join(part for part in (drain.user or "", at) if part)
        parts = [f"{drain.reason} ({whence})".strip() if whence else drain.reason]
    parts += [f"{each.purpose} {_span(each)}" for each in node.reservations[:1]]
    return "; ".join(part for part in parts if part)


def _state(node: api.Node) -> str:
    """The state of a node: reserved while a reservation has begun and the node is up."""
    begun = any(each.begin_at <= time() for each in node.reservations)
    return "reserved" if begun and node.state == "up" else node.state


def _span(reservation: NodeReservation) -> str:
    return f"from {_local(reservation.begin_at)} until {_local(reservation.end_at)}"


def _local(at: float) -> str:
    return strftime("%Y-%m-%d %H:%M", localtime(at))


NODES: Table[api.Node] = (
    Column("NODE", lambda node, _: node.name),
    Column("STATE", lambda node, _: state_cell(_state(node))),
    Column("FREE", lambda node, _: node.slots - node.slots_used, right=True),
    Column("SLOTS", lambda node, _: node.slots, right=True),
    Column("TYPE", lambda node, _: node.slot_type),
    Column("CLUSTER", lambda node, _: node.cluster),
    Column("POOL", lambda node, _: node.pool),
    Column("SHARD", lambda node, _: node.shard),
    Column("CPUS", lambda node, _: number(node.cpus) if node.cpus else "", right=True, optional=True),
    Column(
        "MEMORY",
        lambda node, _: size(node.memory_bytes) if node.memory_bytes else "",
        right=True,
        optional=True,
    ),
    Column("ADDRESS", lambda node, _: node.address, optional=True),
    Column(
        "HELD BY", lambda node, _: ", ".join(f"{run.name} ({run.slots})" for run in node.runs), flexible=True
    ),
    Column("REASON", lambda node, _: _reason(node)),
)

GROUPS: Table[Sequence[api.Node]] = (
    Column("CLUSTER", lambda nodes, _: nodes[0].cluster),
    Column("POOL", lambda nodes, _: nodes[0].pool),
    Column("SHARD", lambda nodes, _: nodes[0].shard),
    Column("STATE", lambda nodes, _: state_cell(_state(nodes[0]))),
    Column("NODES", lambda nodes, _: len(nodes), right=True),
    Column("TYPE", lambda nodes, _: nodes[0].slot_type),
    Column("SLOTS", lambda nodes, _: f"{len(nodes)} x {nodes[0].slots}", right=True),
    Column("FREE", lambda nodes, _: sum(node.slots - node.slots_used for node in nodes), right=True),
    Column("IDLE NODES", lambda nodes, _: sum(not node.runs for node in nodes), right=True),
    Column("RUNS", lambda nodes, _: len({run.id for node in nodes for run in node.runs}), right=True),
)


RESERVATIONS: Table[api.Reservation] = (
    Column("NAME", lambda each, _: each.name),
    Column("FROM", lambda each, _: _local(each.begin_at)),
    Column("UNTIL", lambda each, _: _local(each.end_at)),
    Column("FOR", lambda each, _: each.purpose),
    Column("NODES", lambda each, _: ", ".join(each.nodes), flexible=True),
    Column("STILL THERE", lambda each, _: ", ".join(run.name for run in each.still_there), flexible=True),
    Column("BY", lambda each, _: each.user or ""),
    Column("REASON", lambda each, _: each.reason),
)


@click.group(cls=Subcommands, invoke_without_command=True)
@click.option("--cluster", metavar="NAME", help="Only nodes of this cluster.")
@click.option("--pool", metavar="NAME", help="Only nodes of this pool.")
@click.option("--shard", metavar="NAME", help="Only nodes of this shard.")
@flag("--all", "-a", "everything", help="A line for each node, however many there are.")
@click.pass_context
def nodes(ctx: click.Context, /, *, everything: bool, **parts: str | None) -> None:
    """List nodes, their slots and what runs on them; on a terminal, many nodes are shown in groups."""
    if calls_subcommand(ctx):
        return
    found = connect().nodes(**parts)
    terminal = stdout_terminal()
    grouped = len(found) > LISTED and terminal.width is not None and not everything
    text = "" if wants_json() else node_table(found, terminal, grouped=grouped)
    answer({"nodes": found}, text, empty="no node is known")
    if grouped and not wants_json():
        remark(f"{len(found)} nodes; --all lists each, --cluster, --pool and --shard narrow")


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


choice_options = together(
    click.argument("names", metavar="[NODE...]", nargs=-1, shell_complete=complete_node),
    click.option(
        "--cluster", metavar="NAME", help="Every node of this cluster; with names, only these there."
    ),
    click.option("--pool", metavar="NAME", help="Every node of this pool, likewise."),
    click.option("--shard", metavar="NAME", help="Every node of this shard, likewise."),
)
"""Options that select nodes by name or by part of a cluster, for the commands that change nodes."""


@nodes.command()
@choice_options
@click.option("--reason", metavar="TEXT", default="", help="Why; shown by `nodes` and `why`.")
def drain(*, names: tuple[str, ...], reason: str, **parts: str | None) -> None:
    """Give nodes no new work; what runs there goes on.

    NODE is a node's name, or its host name where no other node has it. All of them are drained, or none.
    """
    _one_choice(names, parts)
    changed = connect().drain(*names, reason=reason, **parts)
    text = "\n".join(f"{node.name} takes no new work; {_remaining_work(node)}" for node in changed)
    if len(changed) > NODES_SHOWN:
        busy = sum(bool(node.runs) for node in changed)
        left = f"on {busy} of them there are still runs" if busy else "they are empty"
        text = f"{len(changed)} nodes take no new work; {left}"
    answer({"nodes": changed}, text)


@nodes.command()
@choice_options
def undrain(*, names: tuple[str, ...], **parts: str | None) -> None:
    """Give drained nodes work again."""
    _one_choice(names, parts)
    changed = connect().undrain(*names, **parts)
    away = ("" if node.state == "up" else f", once it is no longer {node.state}" for node in changed)
    lines = [f"{node.name} takes work again{when}" for node, when in zip(changed, away, strict=True)]
    if len(changed) > NODES_SHOWN:
        lines = [f"{len(changed)} nodes take work again"]
    answer({"nodes": changed}, "\n".join(lines))


@nodes.command()
@choice_options
@click.option("--from", "begin_at", type=local_time, metavar="TIME", help="The begin; by default now.")
@click.option(
    "--for", "duration_s", type=duration, metavar="TIME", required=True, help="How long: 90m, 8h, 2d."
)
@click.option("--users", type=_names, metavar="A,B", default="", help="Their runs may use the nodes.")
@click.option("--projects", type=_names, metavar="A,B", default="", help="Runs of these projects may.")
@click.option("--reason", metavar="TEXT", default="", help="Why; shown by `nodes` and `why`.")
@click.option("--name", metavar="NAME", help="Name of the reservation; by default from its begin.")
@flag("--preempt", help="Preempt other runs that are still there at the begin.")
def reserve(*, names: tuple[str, ...], begin_at: float | None, name: str | None, **options: Any) -> None:
    """Reserve nodes for a time: for users and projects, or without these for maintenance.

    Until then other runs start there only if their time limit ends before. Those that are still there at the
    begin continue, unless their mode or pool lets the scheduler preempt them.
    """
    begin_at = begin_at or time()
    name = name or strftime("reservation-%Y%m%d-%H%M", localtime(begin_at))
    made = connect().reserve(*names, begin_at=begin_at, name=name, **options)
    shown = ", ".join(made.nodes) if len(made.nodes) <= NODES_SHOWN else f"{len(made.nodes)} nodes"
    lines = [f"reservation {made.name}: {shown} {made.purpose} {_span(made)}"]
    if made.still_there:
        runs = ", ".join(run.name for run in made.still_there)
        end = "they are preempted then" if made.preempt else "--preempt makes them leave then"
        lines.append(f"runs that may still be there at its begin: {runs}; {end}")
    answer({"reservation": made}, "\n".join(lines))


@nodes.command()
def reservations() -> None:
    """List the reservations of nodes that have not ended."""
    print_list("reservations", connect().reservations(), RESERVATIONS, empty="no nodes are reserved")


@nodes.command()
@click.argument("name", metavar="NAME")
def release(*, name: str) -> None:
    """End a reservation of nodes now, or cancel it."""
    ended = connect().release(name)
    answer({"reservation": ended}, f"reservation {ended.name} has ended")


def _one_choice(names: tuple[str, ...], parts: dict[str, str | None]) -> None:
    if not names and not any(parts.values()):
        raise click.UsageError("which nodes? Name them, or give --cluster, --pool or --shard")


def _remaining_work(node: api.Node) -> str:
    return f"still there: {', '.join(run.name for run in node.runs)}" if node.runs else "it is empty"


def node_table(known: Sequence[api.Node], terminal: Terminal, *, grouped: bool = False) -> str:
    """A line for each node, or for each group of nodes that are equal except for their runs.

    The pool of a node is shown only if there are several pools.
    """
    if not grouped:
        several_pools = len({node.pool for node in known}) > 1
        return table_text([each for each in NODES if several_pools or each.title != "POOL"], known, terminal)
    groups: dict[tuple[object, ...], list[api.Node]] = {}
    for node in known:
        alike = (node.cluster, node.pool, node.shard, _state(node), node.slot_type, node.slots)
        groups.setdefault(alike, []).append(node)
    return table_text(GROUPS, groups.values(), terminal)
