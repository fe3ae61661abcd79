"""`tarmac shell`: open a terminal beside a worker, or in a run of its own."""

from __future__ import annotations

import sys
from typing import Any

import click

from tarmac.cli.commands.sessions.exec import needs_terminal, run_command, worker_options
from tarmac.cli.interactive import SHELL, NotStarted, begin, sit
from tarmac.cli.options import COUNT, complete_cluster, complete_run, repeated, together, variables_option
from tarmac.cli.session import connect

own_run_options = together(
    click.option("--slots", type=COUNT, metavar="N", help="In a run of its own, with N slots."),
    click.option("--slot-type", metavar="TYPE", help="Slots of this type only."),
    click.option("--pool", metavar="NAME", help="In this pool."),
    click.option("--cluster", metavar="NAME", shell_complete=complete_cluster, help="On this cluster."),
    variables_option,
    repeated("--secret", "secrets", help="Give it the secret NAME. May be repeated."),
    click.option("--time-limit", metavar="DURATION", help="End it after this time, as 90s, 10m, 2h or 1d."),
)
"""Options for a run of its own."""


def own_run(options: dict[str, Any]) -> dict[str, Any]:
    """The `overrides` of docs/using/api.md for a run of its own, on one node."""
    plain = ("slots", "slot_type", "pool", "cluster", "time_limit")
    overrides = {name: options[name] for name in plain if options[name] is not None}
    if options["variables"]:
        overrides["env"] = dict(options["variables"])
    if options["secrets"]:
        overrides["secrets"] = list(options["secrets"])
    return overrides


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@own_run_options
@worker_options
def shell(*, run: str | None, **options: Any) -> None:
    """Open a terminal beside a worker of RUN, or with --slots in a run of its own.

    A run of its own waits in the queue as any other, and says what it waits for; its shell begins in a copy
    of the current directory, and it ends when the shell ends. The exit code is that of the shell.

    \b
    tarmac shell digits
    tarmac shell --slots 1
    """
    worker = {name: options.pop(name) for name in ("role", "replica", "worker", "node")}
    overrides = own_run(options)
    if run is None and options["slots"] is None:
        raise click.UsageError("where? Name a RUN, or give --slots N for a run of its own (0: no slot)")
    if run is not None and overrides:
        raise click.UsageError("a RUN has its slots already: give either RUN or options for a run of its own")
    if run is None and any(value is not None for value in worker.values()):
        raise click.UsageError("a run of its own has one worker: --role and the like go with a RUN")
    needs_terminal("tarmac shell", "tarmac exec -i runs a command without one")
    if run is not None:
        sys.exit(run_command(run, [], stdin=True, terminal=True, worker=worker))
    client = connect()
    try:
        run_id = begin(client, "shell", overrides)
    except NotStarted as end:
        sys.exit(end.code)
    sys.exit(sit(client, run_id, SHELL, terminal=True))
