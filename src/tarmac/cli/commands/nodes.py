"""`tarmac nodes`: list the machines, their load and their runs; drain them."""

import click

from tarmac import api
from tarmac.cli.lazy import Subcommands, calls_subcommand
from tarmac.cli.options import complete_node, json_option, together
from tarmac.cli.output import answer, remark
from tarmac.cli.session import connect
from tarmac.cli.views.nodeview import node_table
from tarmac.cli.views.terminal import stdout_terminal

NODES_SHOWN = 20
"""The summary names at most this many drained nodes."""

LISTED = 40
"""On a terminal, more nodes than this are shown in groups."""


@click.group(cls=Subcommands, invoke_without_command=True)
@click.option("--cluster", metavar="NAME", help="Only nodes of this cluster.")
@click.option("--pool", metavar="NAME", help="Only nodes of this pool.")
@click.option("--shard", metavar="NAME", help="Only nodes of this shard.")
@click.option("--all", "-a", "everything", is_flag=True, help="A line for each node, however many there are.")
@json_option
@click.pass_context
def nodes(ctx: click.Context, /, *, everything: bool, as_json: bool, **parts: str | None) -> None:
    """List nodes, their slots and what runs on them; on a terminal, many nodes are shown in groups."""
    if calls_subcommand(ctx):
        return
    found = connect().nodes(**parts)
    terminal = stdout_terminal()
    grouped = len(found) > LISTED and terminal.width is not None and not everything
    text = "" if as_json else node_table(found, terminal, grouped=grouped)
    answer({"nodes": found}, text, as_json=as_json, empty="no node is known")
    if grouped and not as_json:
        remark(f"{len(found)} nodes; --all lists each, --cluster, --pool and --shard narrow")


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
@json_option
def drain(*, names: tuple[str, ...], reason: str, as_json: bool, **parts: str | None) -> None:
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
    answer({"nodes": changed}, text, as_json=as_json)


@nodes.command()
@choice_options
@json_option
def undrain(*, names: tuple[str, ...], as_json: bool, **parts: str | None) -> None:
    """Give drained nodes work again."""
    _one_choice(names, parts)
    changed = connect().undrain(*names, **parts)
    away = ("" if node.state == "up" else f", once it is no longer {node.state}" for node in changed)
    lines = [f"{node.name} takes work again{when}" for node, when in zip(changed, away, strict=True)]
    if len(changed) > NODES_SHOWN:
        lines = [f"{len(changed)} nodes take work again"]
    answer({"nodes": changed}, "\n".join(lines), as_json=as_json)


def _one_choice(names: tuple[str, ...], parts: dict[str, str | None]) -> None:
    if not names and not any(parts.values()):
        raise click.UsageError("which nodes? Name them, or give --cluster, --pool or --shard")


def _remaining_work(node: api.Node) -> str:
    if not node.runs:
        return "it is empty"
    return f"still there: {', '.join(run.name for run in node.runs)}"
