"""`tarmac clusters`: list and show them; add, check and remove described ones."""

from __future__ import annotations

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_cluster, json_option
from tarmac.cli.output import print_json, print_text, print_warnings, remark
from tarmac.cli.runfile import read_text
from tarmac.cli.session import connect
from tarmac.cli.views.clusterview import cluster_line, cluster_page, cluster_table, findings_table
from tarmac.cli.views.terminal import stdout_terminal


@click.group(cls=Subcommands, invoke_without_command=True)
@json_option
@click.pass_context
def clusters(ctx: click.Context, *, as_json: bool) -> None:
    """List clusters, their slots and pools."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"write --json after {ctx.invoked_subcommand}", ctx)
        return
    known = connect().clusters()
    if as_json:
        print_json({"clusters": known})
    elif known:
        print_text(cluster_table(known, stdout_terminal()))
    else:
        remark("no cluster is known")


@clusters.command()
@click.argument("name", metavar="NAME", shell_complete=complete_cluster)
@json_option
def show(*, name: str, as_json: bool) -> None:
    """Show a cluster: its pools with their rules, its nodes by shard and type."""
    cluster = connect().cluster(name)
    if as_json:
        print_json(cluster)
    else:
        print_text(cluster_page(cluster, stdout_terminal()))


@clusters.command()
@click.argument("name", metavar="NAME", shell_complete=complete_cluster)
@json_option
@click.pass_context
def check(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Try what a run needs on a cluster, and print what was found.

    The exit code is 1 if something is missing.
    """
    found = connect().check_cluster(name)
    if as_json:
        print_json({"cluster": name, "findings": found})
    else:
        print_text(findings_table(found, stdout_terminal()))
    if not all(finding["ok"] for finding in found):
        ctx.exit(1)


@clusters.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--replace", is_flag=True, help="In place of the cluster of the same name.")
@json_option
def add(*, file: str, replace: bool, as_json: bool) -> None:
    """Add the cluster that FILE describes; this machine stands for its nodes, unless it names an engine.

    FILE may be - for standard input. What runs on nodes that stay goes on; a replacement that takes away
    what runs hold or need is refused.
    """
    source = read_text(file, what="a cluster file")
    cluster = connect().add_cluster(source.text, filename=source.filename, replace=replace)
    print_warnings(f"{file}: {warning}" for warning in cluster["warnings"])
    if as_json:
        print_json(cluster)
    else:
        print_text(f"there is {cluster_line(cluster)}")


@clusters.command()
@click.argument("name", metavar="NAME", shell_complete=complete_cluster)
@json_option
def rm(*, name: str, as_json: bool) -> None:
    """Forget a cluster that was added; refused while runs hold its nodes or need them.

    Empty it first: tarmac nodes drain --cluster NAME gives it no new work.
    """
    cluster = connect().remove_cluster(name)
    if as_json:
        print_json(cluster)
    else:
        print_text(f"{cluster['name']} is gone")
