"""`tarmac simulate`: traces, or the cluster's own history, played through the scheduler in virtual time."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import click

from tarmac.cli.bars import PlayBar
from tarmac.cli.errors import INTERRUPTED
from tarmac.cli.options import Duration, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.runfile import read_text
from tarmac.cli.session import connect
from tarmac.cli.simview import comparison, document, never_fits_remarks, wide_table
from tarmac.cli.terminal import stdout_terminal
from tarmac.dialects.clusterfile import read_cluster
from tarmac.model.cluster import Cluster, Policy
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.lifecycle import RunState
from tarmac.simulator.changes import EXAMPLES, SWITCH, Situation, changed, policy_of
from tarmac.simulator.comparing import Interruption, Result, Setting, play_all
from tarmac.simulator.forms import FORMS, Window, columns_of, is_number
from tarmac.simulator.history import busiest, cluster_of, trace_of
from tarmac.simulator.jobrows import check_path, write_rows
from tarmac.simulator.jobs import Trace
from tarmac.simulator.playing import Rules
from tarmac.simulator.plot import plot, require_plotting
from tarmac.simulator.shapes import MOST_NODES, MOST_SLOTS, shape_of
from tarmac.simulator.traces import parse_time, read_trace

PAGE = 500
DAY_S = 86_400.0
DATE_CHARACTERS = len("2017-10-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of one call, as they were given."""

    traces: tuple[str, ...]
    form: str | None
    columns: str | None
    cluster: str | None
    policies: str | None
    preemption: str
    since: str | None
    until: str | None
    limits: float | None
    restart_s: float
    what_if: tuple[str, ...]
    history: bool
    estimates: bool


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, type=click.Path())
@click.option(
    "--form", type=click.Choice(list(FORMS)), help="The form of the traces (told by their content)."
)
@click.option(
    "--columns", metavar="M=NAME,...", help="Columns of a CSV: submitted=, duration=, slots=, user= ..."
)
@click.option("--cluster", metavar="NxS|FILE", help="Nodes x slots, or a cluster description.")
@click.option(
    "--policy", "policies", metavar="NAME,...", help=f"Policies, all by default: {', '.join(Policy)}."
)
@click.option(
    "--preemption",
    type=click.Choice(["on", "off", "auto"]),
    default="auto",
    show_default=True,
    help="Displacing batch runs; auto: where the policy shares time.",
)
@click.option("--from", "since", metavar="DATE", help="Only what was submitted from this day or time on.")
@click.option("--to", "until", metavar="DATE", help="Only what was submitted up to this day, it included.")
@click.option(
    "--limits",
    type=click.FloatRange(min=1.0),
    metavar="FACTOR",
    help="Time limits of so many times the true duration.",
)
@click.option("--restart-cost", "restart_s", type=Duration(), default=0.0, help="What every start costs.")
@click.option("--what-if", multiple=True, metavar="CHANGE", help=f"The same, changed: {EXAMPLES}.")
@click.option("--history", is_flag=True, help="Play what ended on your own cluster, on that cluster.")
@click.option("--estimates", is_flag=True, help="Measure the estimates of starts as well.")
@click.option("--table", "as_table", is_flag=True, help="One table over all traces, with published results.")
@click.option("--published", multiple=True, metavar="NAME=S", help="A result to stand beside, in --table.")
@click.option("--jobs", "rows_to", type=click.Path(), help="Write what became of each job: FILE.csv.")
@click.option("--plot", "plot_to", type=click.Path(), help="Draw queue and utilisation: FILE.png or .svg.")
@json_option
def simulate(
    *,
    as_table: bool,
    published: tuple[str, ...],
    rows_to: str | None,
    plot_to: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Play traces through the real scheduler in virtual time, and compare policies.

    The forms philly, muri and shockwave are known by their content, other CSV files by --columns. Ctrl-C
    prints what is known so far.
    """
    asked = Asked(**options)
    if plot_to is not None:
        require_plotting(plot_to)
    if rows_to is not None:
        check_path(rows_to)
    named = _published(published)
    settings = [replace(setting, each_job=rows_to is not None) for setting in _settings(asked)]
    with _interruption() as interruption, PlayBar.on_stderr(quiet=as_json and not sys.stdout.isatty()) as bar:
        results = play_all(
            settings, workers=len(os.sched_getaffinity(0)), interruption=interruption, progress=bar.show
        )
    played = list(zip(settings, results, strict=True))
    failures = [_drawn(played, plot_to) if plot_to is not None else None]
    failures.append(_written(played, rows_to) if rows_to is not None else None)
    _answer(played, named, as_json=as_json, as_table=as_table)
    for failure in filter(None, failures):
        raise failure
    if interruption.asked:
        remark("interrupted: this is what was known by then")
        sys.exit(INTERRUPTED)


def _drawn(played: Sequence[tuple[Setting, Result]], plot_to: str) -> InvalidInput | None:
    """Draw; what keeps it from being drawn is told after the figures, which took longer to come by."""
    try:
        plot(played, Path(plot_to))
    except OSError as error:
        return InvalidInput(
            f"--plot {plot_to!r}: it cannot be written: {(error.strerror or str(error)).lower()}"
        )
    remark(f"drawn: {plot_to}")
    return None


def _written(played: Sequence[tuple[Setting, Result]], rows_to: str) -> InvalidInput | None:
    """Write a row for each job; what keeps them from being written is told after the figures too."""
    try:
        write_rows(
            ((setting.trace.name, setting.label, result.rows) for setting, result in played), Path(rows_to)
        )
    except OSError as error:
        return InvalidInput(
            f"--jobs {rows_to!r}: it cannot be written: {(error.strerror or str(error)).lower()}"
        )
    remark(f"{sum(len(result.rows) for _, result in played)} jobs written: {rows_to}")
    return None


def _answer(
    played: Sequence[tuple[Setting, Result]], named: dict[str, float], *, as_json: bool, as_table: bool
) -> None:
    if as_json:
        print_json(document(played, named))
        return
    for line in never_fits_remarks(played):
        remark(line)
    print_text((wide_table if as_table else comparison)(played, named, stdout_terminal()))


def _settings(asked: Asked) -> list[Setting]:
    """Every play that was asked for: each trace under each policy, before and after each change."""
    if bool(asked.traces) == asked.history:
        raise click.UsageError("name traces to play, or --history for what ended on your own cluster")
    if asked.limits is not None and not isfinite(asked.limits):
        raise click.UsageError(f"--limits {asked.limits}: a factor of 1 or more, such as 1.5")
    described = _cluster(asked.cluster) if asked.cluster is not None else None
    settings = []
    for trace, own in [_history()] if asked.history else _traces(asked):
        for policy in _policies(asked):
            rules = Rules(
                policy=policy,
                preemption=SWITCH.get(asked.preemption),
                limit_factor=asked.limits,
                restart_s=asked.restart_s,
                estimates=asked.estimates,
            )
            before = Situation(cluster=described or own, rules=rules)
            situations = {"": before} | {words: changed(before, words) for words in asked.what_if}
            settings += [
                Setting(
                    label=", ".join(filter(None, (policy, words))) or "as it is",
                    trace=trace,
                    cluster=situation.cluster,
                    rules=situation.rules,
                )
                for words, situation in situations.items()
            ]
    return settings


def _policies(asked: Asked) -> list[Policy | None]:
    """All by default; one's own cluster has its own rules (None), and a question asks of one at a time."""
    if asked.policies is not None:
        return [policy_of(word) for word in asked.policies.split(",")]
    if asked.history:
        return [None]
    return [Policy.PRIORITY] if asked.what_if else list(Policy)


def _traces(asked: Asked) -> Iterator[tuple[Trace, Cluster]]:
    """The traces with the clusters they were published for, everything wrong with all of them at once."""
    columns = columns_of(asked.columns) if asked.columns is not None else None
    window = _window(asked.since, asked.until)
    problems: list[Problem] = []
    found: list[tuple[Trace, Cluster]] = []
    for path in asked.traces:
        try:
            trace = read_trace(path, form=asked.form, columns=columns, window=window)
        except InvalidInput as error:
            problems += error.problems
            continue
        shape = shape_of(trace.cluster) if trace.cluster is not None else None
        if shape is None and asked.cluster is None:
            message = "a trace of this form says nothing of a cluster: name one with --cluster, such as 64x8"
            problems.append(Problem(message=message, file=path))
        found.append((trace, shape or Cluster(name="", groups=())))
    if problems:
        raise InvalidInput(problems)
    yield from found


def _history() -> tuple[Trace, Cluster]:
    """What ended on the cluster that the server of this environment serves, and that cluster."""
    client = connect()
    ended, before = [], None
    while True:
        page = client.runs(states=[RunState.ENDED], before=before, limit=PAGE, everything=True)
        ended += page["runs"]
        before = page["next"]
        if before is None:
            break
    attempts = {run["id"]: client.attempts(run["id"]) for run in ended if run["attempt"] > 1}
    name = busiest(ended)
    return trace_of(ended, attempts, name), cluster_of(name, client.nodes(), client.clusters())


def _cluster(text: str) -> Cluster:
    """The cluster of a shape or of a description file."""
    shape = shape_of(text)
    if shape is not None:
        return shape
    if re.fullmatch(r"\d+x\d+", text):
        raise InvalidInput(
            f"--cluster {text!r}: 1 to {MOST_NODES} nodes of 1 to {MOST_SLOTS} slots can be played"
        )
    if not Path(text).exists():
        raise InvalidInput(f"--cluster {text!r} is neither nodes x slots, such as 64x8, nor a file")
    return read_cluster(read_text(text, what="a cluster file").text, filename=text).cluster


def _window(since: str | None, until: str | None) -> Window | None:
    """The dates asked for; a day at the end is meant whole."""
    if since is None and until is None:
        return None
    end = _moment("--to", until)
    if end is not None and until is not None and len(until) == DATE_CHARACTERS:
        end += DAY_S
    return Window(since=_moment("--from", since), until=end)


def _moment(option: str, text: str | None) -> float | None:
    at = parse_time(text) if text is not None else None
    if text is not None and at is None:
        raise InvalidInput(f"{option} {text!r}: write a date such as 2017-10-01")
    return at


def _published(words: Sequence[str]) -> dict[str, float]:
    """Results of others that the user passes: a name and a mean completion time in seconds."""
    found = {}
    for item in words:
        name, _, value = item.rpartition("=")
        if not name or not is_number(value) or not isfinite(float(value)):
            raise InvalidInput(f"--published {item!r} is not of the form NAME=SECONDS")
        found[name] = float(value)
    return found


@contextmanager
def _interruption() -> Iterator[Interruption]:
    """Ctrl-C asks the plays to end, and is told of by `Interruption`; a second one ends everything."""
    interruption = Interruption()

    def interrupted(_number: int, _frame: object) -> None:
        if interruption.asked:
            raise KeyboardInterrupt
        interruption.asked = True

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)
