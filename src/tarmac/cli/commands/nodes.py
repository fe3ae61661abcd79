"""`tarmac nodes`: the machines, how full they are, what runs on them; draining them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.amounts import number, size
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_node, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.table import Column, render
from tarmac.cli.terminal import Terminal, stdout_terminal
from tarmac.cli.wording import state_cell

if TYPE_CHECKING:
    from tarmac.client.records import NodeRecord

_COLUMNS = (
    Column(title="NODE"),
    Column(title="STATE"),
    Column(title="FREE", right=True),
    Column(title="SLOTS", right=True),
    Column(title="TYPE"),
    Column(title="CLUSTER"),
    Column(title="POOL", optional=True),
    Column(title="SHARD", optional=True),
    Column(title="CPUS", right=True, optional=True),
    Column(title="MEMORY", right=True, optional=True),
    Column(title="ADDRESS", optional=True),
    Column(title="RUNS", flexible=True),
)


@click.group(cls=Subcommands, invoke_without_command=True)
@json_option
@click.pass_context
def nodes(ctx: click.Context, *, as_json: bool) -> None:
    """List nodes, their slots and what runs on them."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"write --json after {ctx.invoked_subcommand}", ctx)
        return
    known = connect().nodes()
    if as_json:
        print_json({"nodes": known})
    elif known:
        print_text(node_table(known, stdout_terminal()))
    else:
        remark("no node is known")


@nodes.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True, shell_complete=complete_node)
@json_option
def drain(*, names: tuple[str, ...], as_json: bool) -> None:
    """Give nodes no new work; what runs there goes on."""
    _set_drained(names, drained=True, as_json=as_json)


@nodes.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True, shell_complete=complete_node)
@json_option
def undrain(*, names: tuple[str, ...], as_json: bool) -> None:
    """Give drained nodes work again."""
    _set_drained(names, drained=False, as_json=as_json)


def node_table(known: Sequence[NodeRecord], terminal: Terminal) -> str:
    """The table of nodes; what is the same everywhere by default (pool, shard) shows only where set."""
    several_pools = len({node["pool"] for node in known}) > 1
    rows = (
        (
            node["name"],
            state_cell(node["state"]),
            str(node["slots"] - node["slots_used"]),
            str(node["slots"]),
            node["slot_type"] or "",
            node["cluster"],
            node["pool"] if several_pools else "",
            node["shard"] or "",
            number(node["cpus"]) if node["cpus"] else "",
            size(node["memory_bytes"]) if node["memory_bytes"] else "",
            node["address"],
            ", ".join(f"{run['name']} ({run['slots']})" for run in node["runs"]),
        )
        for node in known
    )
    return render(_COLUMNS, rows, terminal)


def _set_drained(names: tuple[str, ...], *, drained: bool, as_json: bool) -> None:
    client = connect()
    changed = [(client.drain if drained else client.undrain)(name) for name in names]
    if as_json:
        print_json({"nodes": changed})
        return
    for node in changed:
        if not drained:
            print_text(f"{node['name']} takes work again")
        elif node["runs"]:
            left = ", ".join(run["name"] for run in node["runs"])
            print_text(f"{node['name']} takes no new work; still there: {left}")
        else:
            print_text(f"{node['name']} takes no new work; it is empty")
