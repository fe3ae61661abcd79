"""`tarmac clusters`: list and show them; add, check and remove described ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import KeyValue, complete_cluster, json_option
from tarmac.cli.output import print_json, print_text, print_warnings, remark
from tarmac.cli.runfile import read_text
from tarmac.cli.session import connect
from tarmac.cli.views.clusterview import cluster_line, cluster_page, cluster_table, findings_table
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client.launching import json_text


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
    if not all(finding.ok for finding in found):
        ctx.exit(1)


@clusters.command()
@click.argument("file", metavar="FILE|NAME", type=click.Path())
@click.option("--engine", metavar="ENGINE", help="Add the cluster NAME of this engine, without a file.")
@click.option("--address", metavar="HOST:PORT", help="With --engine: the setting address, as ray has it.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    type=KeyValue(),
    metavar="SETTING=VALUE",
    help="With --engine: a setting, as partition=gpu or pools.train.qos=long; may be repeated.",
)
@click.option("--replace", is_flag=True, help="In place of the cluster of the same name.")
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    *,
    file: str,
    engine: str | None,
    address: str | None,
    settings: tuple[tuple[str, str], ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Add the cluster that FILE describes: virtual nodes on this machine, unless FILE names an engine.

    FILE may be - for standard input. With --engine, the cluster NAME is added without a file. What runs on
    nodes that stay goes on; a replacement that takes away what runs hold or need is refused.
    """
    if address is not None:
        settings = (("address", address), *settings)
    if engine is None and settings:
        raise click.UsageError("--set goes with --engine; a file has its settings under 'settings'", ctx)
    if engine is None:
        source = read_text(file, what="a cluster file")
        text, filename = source.text, source.filename
    else:
        text, filename = described(file, engine, settings), "command line"
    cluster = connect().add_cluster(text, filename=filename, replace=replace)
    print_warnings(f"{file}: {warning}" for warning in cluster.warnings)
    if as_json:
        print_json(cluster)
    else:
        print_text(f"there is {cluster_line(cluster)}")


def described(name: str, engine: str, settings: Iterable[tuple[str, str]]) -> str:
    """The text of a cluster file with these settings; a dot selects a nested mapping; empty means null."""
    tree: dict[str, Any] = {}
    for key, value in settings:
        *path, last = key.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise click.UsageError(f"--set {key}: {part!r} has a value already")
        place[last] = _VALUES.get(value, value)
    return json_text({"name": name, "engine": engine, "settings": tree})


_VALUES = {"": None, "null": None, "true": True, "false": False}
"""Texts with another value; null removes a directive."""


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
        print_warnings(cluster.warnings)
        print_text(f"{cluster.name} is gone")
