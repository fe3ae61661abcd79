"""`tarmac logs` and `tarmac attach`: print or follow the output of a run's workers; follow its main worker.

An array's members are printed one after the other.
"""

import re
import sys
from functools import partial
from typing import Any, Unpack

import click

from tarmac import api
from tarmac.cli.dialogue import connect, remark, wants_json
from tarmac.cli.following import View, expected_workers, follow, standard_view
from tarmac.cli.lazy import command
from tarmac.cli.options import COUNT, duration, flag, run_argument, tail_option
from tarmac.cli.selecting import means_all, member_ids
from tarmac.cli.views.logview import LineRule
from tarmac.cli.views.messages import state_of, title
from tarmac.cli.views.metricview import report_text
from tarmac.client.client import Client, LogChoice
from tarmac.model.resources import DEFAULT_ROLE
from tarmac.systems.displays import as_option, display


def _pattern(text: str) -> re.Pattern[str]:
    """A regular expression in Python's syntax."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None


@command()
@run_argument
@flag("--follow", "-f", "following", help="Go on until the run ends; exit with its code.")
@click.option("--role", metavar="NAME", help="Only workers of this role.")
@click.option("--replica", type=COUNT, metavar="N", help="Only workers of this replica.")
@click.option("--worker", type=COUNT, metavar="N", help="Only this worker of each replica.")
@click.option(
    "--rank",
    type=COUNT,
    metavar="N",
    help="Only this process of those that train together: its log, or its lines in one.",
)
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt; by default all of them."
)
@click.option("--tail", type=COUNT, metavar="N", help="Only each worker's last N lines, over all attempts.")
@click.option(
    "--since", "since_s", type=duration, metavar="DURATION", help="Only what was written since, as 10m."
)
@click.option("--grep", metavar="REGEX", type=_pattern, help="Only lines in which this is found.")
@flag("--timestamps", "-t", "times", help="Begin each line with the time it was written.")
@flag("--raw", help="To a terminal, too, write just what the workers wrote.")
@as_option
def logs(
    *,
    run: str,
    following: bool,
    grep: re.Pattern[str] | None,
    raw: bool,
    system: str | None,
    **choice: Unpack[LogChoice],
) -> None:
    """Print what the workers of a run wrote.

    Lines begin with role.replica.worker where there are several workers; a single one is printed as it is.
    """
    if wants_json() and grep is not None:
        raise click.UsageError("--grep is for text: leave out --json")
    client = connect()
    record = client.run(run)
    times, rank = choice.get("times", False), choice.get("rank")
    filters = grep is not None or times or rank is not None
    rule = LineRule(pattern=grep, timestamps=times, rank=rank) if filters else None
    prefix = partial(display(system).log_prefix, record) if system is not None else None
    form: dict[str, Any] = {"quiet": True, "prefix": prefix, "raw": raw, "rule": rule}
    if means_all(record, run):
        if following or wants_json():
            raise click.UsageError(f"{run} is an array: give one member, as '{title(record)}'")
        for run_id in member_ids(client, record, run):
            member = client.run(run_id)
            remark(title(member))
            _print(client, member, choice, standard_view(**form))
        return
    view = standard_view(**form)
    if following:
        sys.exit(follow(client, record.id, view, choice))
    _print(client, record, choice, view)


def _print(client: Client, run: api.Run, choice: LogChoice, view: View) -> None:
    if run.attempt == 0 and not wants_json():
        remark(f"it has not started; tarmac why {run.id} says more")
    for attempt in client.attempts(run.id):
        if attempt.number == (choice.get("attempt") or run.attempt):
            view.expect(expected_workers(run, attempt, choice))
    rank = choice.get("rank")
    marks: set[bool] = set()
    for chunk in client.logs(run.id, **choice):
        marks.add(chunk.rank is not None or f"[rank={rank}]" in chunk.text)
        view.log(chunk)
    view.finish()
    if rank is not None and marks == {False} and not wants_json():
        remark(
            f"none of its lines is marked as one of rank {rank}: ranks are known where a `launcher` "
            f"starts the processes, or where lines begin with [rank={rank}]"
        )
    cause = run.cause
    if cause and run.attempt and run.started_at is None and run.outcome == "failed" and not wants_json():
        remark(f"its workers never started: {cause.message}")


_ATTACHED_LINES = 20


@command()
@run_argument
@tail_option(_ATTACHED_LINES, "Begin with its last N lines.")
def attach(*, run: str, tail: int) -> None:
    """Follow a run as `tarmac run` does: what its first worker writes, and what happens to the run.

    Ctrl-C detaches and leaves the run alone. The exit code is the run's own. All workers: tarmac logs -f.
    """
    client = connect()
    record = client.run(run)
    if not wants_json():
        remark(f"{record.name} ({record.id}) is {state_of(record)}")
        reports = client.reports(record.id, limit=1) if record.attempt else []
        if reports:
            remark(report_text(reports[-1]))
    role = record.spec["roles"][0].get("name", DEFAULT_ROLE)
    view = standard_view()
    sys.exit(follow(client, record.id, view, {"role": role, "replica": 0, "worker": 0, "tail": tail}))
