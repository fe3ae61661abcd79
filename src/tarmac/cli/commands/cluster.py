"""`tarmac cluster`: start, inspect and end a Ray cluster on servers that SSH reaches."""

from __future__ import annotations

import re
import time
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_cluster, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.runfile import STDIN, read_text
from tarmac.cli.session import connect
from tarmac.cli.views.clusterview import change_line, cluster_line, machine_table
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.machine import MachineState

if TYPE_CHECKING:
    from tarmac.client import Client


@click.group(cls=Subcommands)
def cluster() -> None:
    """Start a Ray cluster on your own GPU servers over SSH, look at it, and end it."""


@cluster.command()
@click.argument("file", metavar="HOSTS.txt", type=click.Path())
@click.option("--name", metavar="NAME", help="Name of the cluster; else that of the file.")
@click.option("--install", is_flag=True, help="Install Ray where it is missing, in a directory of its own.")
@json_option
def up(*, file: str, name: str | None, install: bool, as_json: bool) -> None:
    """Have a cluster run on the servers that HOSTS.txt lists, and no others.

    One line a server: [user@]name [head] [port=N] [slots=N] [cpus=N] [address=IP] [python=COMMAND]
    [directory=PATH]. Everything that is wrong with any of them is reported before anything is started.

    The same command again starts what is down, adds servers, and takes out those that are gone from the
    file: their runs save, and go on elsewhere.
    """
    source = read_text(file, what="a hosts file")
    name = name or _name_of(file)
    client = connect()
    client.start_cluster(name, source.text, filename=source.filename, install=install)
    _follow(client, name, as_json=as_json, going="goes on starting it")
    if as_json:
        print_json(client.cluster(name))
    else:
        print_text(f"there is {cluster_line(client.cluster(name))}")


@cluster.command()
@click.argument("name", metavar="NAME", shell_complete=complete_cluster)
@click.option("--force", is_flag=True, help="Stop the runs on it; give up servers that cannot be reached.")
@click.option("--purge", is_flag=True, help="Remove the directories of runs on the servers too.")
@json_option
def down(*, name: str, force: bool, purge: bool, as_json: bool) -> None:
    """End a cluster that `up` started; refused while runs are on it.

    What belongs to it on each server is ended by its process id, and nothing else is.
    """
    client = connect()
    client.end_cluster(name, force=force, purge=purge)
    _follow(client, name, as_json=as_json, going="goes on ending it")
    if as_json:
        print_json({"cluster": name})
    else:
        print_text(f"{name} is gone")


@cluster.command()
@click.argument("name", metavar="NAME", shell_complete=complete_cluster)
@json_option
@click.pass_context
def status(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show the servers of a cluster that `up` started, and whether Ray runs on each.

    The exit code is 1 if it does not run on one of them.
    """
    found = connect().cluster_machines(name)
    if as_json:
        print_json(found)
    else:
        print_text(machine_table(found, stdout_terminal(), now=time.time()))
        if found.change is not None:
            remark(f"{found.change.kind} is at work on {name}")
    if any(machine.state is not MachineState.UP for machine in found.machines):
        ctx.exit(1)


def _follow(client: Client, name: str, *, as_json: bool, going: str) -> None:
    """Print the steps until the last; on stderr if the answer is a document."""
    try:
        for line in client.follow_cluster_change(name):
            text = change_line(line)
            if as_json:
                remark(text)
            else:
                print_text(text)
    except KeyboardInterrupt:
        remark(f"the server {going}: tarmac cluster status {name} shows how far it is")
        raise


def _name_of(file: str) -> str:
    """The name of a cluster, from its file name."""
    if file == STDIN:
        raise click.UsageError("a cluster from standard input needs --name")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", PurePath(file).stem).strip("-_")
