"""`tarmac queue`: list running and waiting runs in scheduling order; `set` and `move` change it."""

from __future__ import annotations

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_run, json_option
from tarmac.cli.output import remark
from tarmac.cli.queueacts import change_queue, print_queue, shown_runs
from tarmac.cli.queuechanges import is_assignment, read_assignments, read_options
from tarmac.cli.session import connect
from tarmac.cli.views.queueview import with_arrays


@click.group(cls=Subcommands, invoke_without_command=True)
@click.option("--cluster", metavar="NAME", help="Only the pools of this cluster.")
@click.option("--pool", metavar="NAME", help="Only pools of this name.")
@click.option("--mine", is_flag=True, help="Only your own runs.")
@click.option("--all", "-a", "everything", is_flag=True, help="All of a long queue, also on a terminal.")
@click.option("--expand", is_flag=True, help="A line for each member of an array, not one for all.")
@json_option
@click.pass_context
def queue(
    ctx: click.Context,
    *,
    cluster: str | None,
    pool: str | None,
    mine: bool,
    everything: bool,
    expand: bool,
    as_json: bool,
) -> None:
    """Show the queue of each pool: running and waiting runs, in scheduling order.

    SLOTS are those held of those needed. EST. START is when a waiting run is likely to start, if nothing
    else is submitted. Runs that have ended are left out.
    """
    if ctx.invoked_subcommand is not None:
        if cluster or pool or mine or everything or expand or as_json:
            raise click.UsageError(f"write options after {ctx.invoked_subcommand}", ctx)
        return
    limit = None if everything else shown_runs(as_json=as_json)
    pools = connect().queue(cluster=cluster, pool=pool, mine=mine, limit=limit)
    if not (expand or as_json) and any(run.array_id for found in pools for run in found.runs):
        whole = connect().queue(cluster=cluster, pool=pool, mine=mine, limit=None)
        pools = with_arrays(whole, limit=limit)
    if not (cluster or pool) and not as_json:
        pools = [found for found in pools if found.runs]
    if not pools and not as_json:
        remark("none of your runs is queued or running" if mine else "nothing is queued or running")
        return
    print_queue(pools, as_json=as_json)


@queue.command("set")
@click.argument("words", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--priority", metavar="N", help="A bigger number is sooner; of an experiment of Determined, a smaller."
)
@click.option("--weight", metavar="W", help="Its share of a fair-share pool.")
@click.option(
    "--pool", "--resource-pool", metavar="NAME", help="Another pool; a run that runs starts again there."
)
@json_option
@click.pass_context
def set_(
    ctx: click.Context,
    /,
    *,
    words: tuple[str, ...],
    priority: str | None,
    weight: str | None,
    pool: str | None,
    as_json: bool,
) -> None:
    """Change the priority, weight or pool of runs, all or none.

    The priority of an experiment of Determined is on its scale: 1 is first, 42 usual, 99 last.

    Several different changes at once are written RUN.OPERATION=VALUE, where OPERATION is priority, weight,
    pool, ahead-of or behind-of. They are checked as if made one after another, before any is made.

    \b
    tarmac queue set digits --priority 10
    tarmac queue set digits.priority=10 other.pool=big third.ahead-of=digits
    """
    options = {"pool": pool, "priority": priority, "weight": weight}
    values = {field: value for field, value in options.items() if value is not None}
    batch = [word for word in words if is_assignment(word)]
    if batch and values:
        option = next(iter(values))
        raise click.UsageError(f"{batch[0]} says what to change, and so does --{option}; use one form", ctx)
    if not batch and not values:
        raise click.UsageError("what is to change? Give --priority, --weight or --pool", ctx)
    change_queue(read_assignments(words) if batch else read_options(words, values), as_json=as_json)


@queue.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--ahead-of", metavar="RUN", shell_complete=complete_run, help="Right before this run.")
@click.option("--behind-of", metavar="RUN", shell_complete=complete_run, help="Right after this run.")
@click.option("--top", is_flag=True, help="Before all batch runs of its pool.")
@json_option
@click.pass_context
def move(
    ctx: click.Context, /, *, run: str, ahead_of: str | None, behind_of: str | None, top: bool, as_json: bool
) -> None:
    """Move a run to another place in the queue of its pool.

    It takes the priority of the run it is moved next to. In a pool where runs can be preempted, one that
    is moved ahead of a running run takes its slots.
    """
    options = {"ahead_of": ahead_of, "behind_of": behind_of, "top": top or None}
    place = {field: value for field, value in options.items() if value is not None}
    if len(place) != 1:
        raise click.UsageError("give one of --ahead-of RUN, --behind-of RUN and --top", ctx)
    change_queue([{"run": run, **place}], as_json=as_json)
