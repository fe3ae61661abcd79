"""`tarmac simulate`: play traces, or the cluster's own history, through the scheduler in virtual time.

This module defines only the options; it imports `cli.simulation`, which does the work, when needed.
"""

from typing import Any

import click

from tarmac.cli.lazy import command
from tarmac.cli.options import duration, flag, repeated

FORMS = ("philly", "muri", "shockwave", "swf", "csv")
POLICIES = ("priority", "fair_share", "least_attained")
EXAMPLES = "nodes=+4, policy=fair_share, shares=alice:2,bob:1, preemption=on"
RULE = "when: wait > 2h, rate: 2.50/h, budget: 10000"
"""A copy of names in `simulator` and `model`: importing those would make `--help` slow."""


@command()
@click.argument("traces", metavar="TRACE...", nargs=-1, type=click.Path())
@click.option(
    "--form", type=click.Choice(FORMS), help="The form of the traces (default: found from their content)."
)
@click.option(
    "--columns", metavar="M=NAME,...", help="Columns of a CSV: submitted=, duration=, slots=, user= ..."
)
@click.option("--cluster", metavar="NxS|FILE", help="Nodes x slots, or a cluster description.")
@click.option(
    "--policy", "policies", metavar="NAME,...", help=f"Policies, all by default: {', '.join(POLICIES)}."
)
@click.option(
    "--preemption",
    type=click.Choice(["on", "off", "auto"]),
    default="auto",
    show_default=True,
    help="Preempting batch runs; auto: where the policy shares time.",
)
@click.option("--from", "since", metavar="DATE", help="Only what was submitted from this day or time on.")
@click.option("--to", "until", metavar="DATE", help="Only what was submitted up to this day, it included.")
@click.option(
    "--limits",
    type=click.FloatRange(min=1.0),
    metavar="FACTOR",
    help="Time limits as a multiple of the true duration.",
)
@click.option("--restart-cost", "restart_s", type=duration, default=0.0, help="What every start costs.")
@repeated("--what-if", metavar="CHANGE", help=f"The same, changed: {EXAMPLES}.")
@repeated("--burst", metavar="FILE|RULE", help=f"The same, with jobs that rent machines: {RULE!r}.")
@flag("--history", help="Play what ended on your own cluster, on that cluster.")
@flag("--estimates", help="Measure the estimates of starts as well.")
@flag("--table", "as_table", help="One table over all traces.")
@repeated("--published", metavar="NAME=S", help="A published result, to compare with.")
@click.option("--jobs", "rows_to", type=click.Path(), help="Write what became of each job: FILE.csv.")
@click.option("--plot", "plot_to", type=click.Path(), help="Draw queue and utilisation: FILE.png or .svg.")
def simulate(**options: Any) -> None:
    """Play traces through the real scheduler in virtual time, and compare policies.

    The forms philly, muri, shockwave and swf are known by their content, other CSV files by --columns. Ctrl-C
    prints what is known so far.
    """
    from tarmac.cli.simulation import Request, run_simulation

    run_simulation(Request(**options))
