"""`tarmac exec`: run a command in the environment of a running worker; `shell` uses the same functions."""

from __future__ import annotations

import sys
from typing import Any

import click

from tarmac.cli.nearend import attend, terminal_size
from tarmac.cli.options import COUNT, complete_node, run_argument, together
from tarmac.cli.session import connect

worker_options = together(
    click.option("--role", metavar="NAME", help="Beside a worker of this role."),
    click.option("--replica", type=COUNT, metavar="N", help="Beside a worker of this replica."),
    click.option("--worker", type=COUNT, metavar="N", help="Beside this worker of its replica."),
    click.option(
        "--node", metavar="NAME", shell_complete=complete_node, help="Beside a worker on this node."
    ),
)
"""Options that select the worker."""


@click.command("exec")
@run_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--stdin", "-i", is_flag=True, help="Pass on what is typed or piped in.")
@click.option("--tty", "-t", is_flag=True, help="Give the command a terminal.")
@worker_options
def exec_command(*, run: str, command: tuple[str, ...], stdin: bool, tty: bool, **worker: Any) -> None:
    """Run a command beside a worker of a run.

    It sees what the worker sees: the same processes, disk, limits, directory and variables. Without an
    option that is the first worker that runs. The exit code is the command's own. Ctrl-C goes to the
    command, and when the connection breaks off the command is ended.

    \b
    tarmac exec digits -- nvidia-smi
    tarmac exec -it digits -- bash
    tarmac exec -i digits -- tar -xf - < more.tar
    """
    if tty:
        needs_terminal("-t", "leave it out, the command then has pipes")
    sys.exit(run_command(run, list(command), stdin=stdin, terminal=tty, worker=worker))


def needs_terminal(what: str, hint: str) -> None:
    """Raise UsageError if this program has no terminal to pass on."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} takes a terminal, and standard input is none: {hint}")


def run_command(run: str, command: list[str], *, stdin: bool, terminal: bool, worker: dict[str, Any]) -> int:
    """Run a command beside a worker (empty: the user's shell there); return its exit code."""
    opening = {name: value for name, value in worker.items() if value is not None}
    size = terminal_size() if terminal else None
    session = connect().open_session(run, command=command, stdin=stdin, terminal=size, **opening)
    return attend(session, stdin=stdin, terminal=terminal)
