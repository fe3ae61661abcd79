"""`tarmac metrics`: compare reported metrics of runs: a table, curves, or files for other programs."""

import csv
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_json, print_text, print_warnings, remark, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag, plot_option, repeated, runs_argument
from tarmac.cli.views import metricview
from tarmac.cli.views.errors import written
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.codec import json_form
from tarmac.model.errors import InvalidInput

FOLLOW_S = 2.0
PLOT_POINTS = 1000
CSV_COLUMNS = ("run", "run_name", "group", "name", "rank", "step", "time", "value")
MOST_NEW = 1000
"""Maximum number of new points per series that following shows at once."""


@command()
@runs_argument
@repeated("--name", "-n", "names", metavar="METRIC", help="Only this metric; repeatable.")
@click.option("--group", metavar="GROUP", help="Only this group, such as validation.")
@flag("--all", "-a", "everything", help="Every report of one run, report by report.")
@flag("--follow", "-f", help="Show what is reported until the runs end.")
@plot_option("Draw curves: here, or into FILE.png or .svg.")
@flag("--csv", "as_csv", help="Print every point as CSV.")
@click.option("--tensorboard", metavar="DIR", help="Write event files for TensorBoard below DIR.")
def metrics(
    *,
    runs: tuple[str, ...],
    names: tuple[str, ...],
    group: str | None,
    everything: bool,
    follow: bool,
    plot_to: str | None,
    as_csv: bool,
    tensorboard: str | None,
) -> None:
    """Compare what runs reported (tarmac.report in their code): last, lowest and highest of each metric."""
    chosen = {
        "--all": everything,
        "--follow": follow,
        "--plot": plot_to is not None,
        "--csv": as_csv,
        "--tensorboard": tensorboard is not None,
    }
    _refuse_several([option for option, given in chosen.items() if given])
    client = connect()
    if everything:
        _show_reports(client, runs)
        return
    points = PLOT_POINTS if plot_to is not None else None
    found = client.metrics(*runs, names=names, group=group, points=points)
    if as_csv:
        write_csv(every_point(client, found))
    elif tensorboard is not None:
        write_tensorboard(every_point(client, found), tensorboard)
    elif follow:
        _follow(client, runs, names, group)
    elif wants_json():
        print_json({"metrics": found})
    elif not found:
        _say_none(client, runs, group)
    elif plot_to is not None:
        _plot(found, plot_to)
    else:
        print_text(metricview.series_table(found, now=time.time(), terminal=stdout_terminal()))


def _say_none(client: Client, runs: Sequence[str], group: str | None) -> None:
    """Print that no metrics were found; for a group, name the existing groups."""
    groups = sorted({each.group for each in client.metrics(*runs)}) if group is not None else []
    if groups:
        remark(f"no metrics of group {group} were reported; these groups were: {', '.join(groups)}")
    else:
        remark("no metrics were reported; call tarmac.report(step=..., loss=...) in the code of the run")


def _refuse_several(chosen: Sequence[str]) -> None:
    if len(chosen) > 1:
        raise InvalidInput(f"{' and '.join(chosen)} do not go together: choose one of them")


def _show_reports(client: Client, runs: Sequence[str]) -> None:
    """Show the reports of one run."""
    if len(runs) > 1:
        raise InvalidInput(f"--all shows the reports of one run, and {len(runs)} were named")
    reports = client.reports(runs[0])
    text = metricview.report_table(reports, now=time.time(), terminal=stdout_terminal())
    answer({"reports": reports}, text)
    print_warnings(metricview.not_finite(reports) if not wants_json() else ())


def _plot(found: Sequence[api.MetricSeries], plot_to: str) -> None:
    from tarmac.cli.views.metricplot import curves_text, plot

    if not plot_to:
        print_text(curves_text(found, stdout_terminal()))
        return
    with written("--plot", plot_to):
        plot(found, Path(plot_to))
    remark(f"drawn: {plot_to}")


def _follow(client: Client, runs: Sequence[str], names: Sequence[str], group: str | None) -> None:
    """Show points as they arrive, until every run has ended."""
    shown: dict[tuple[str, str, int], float] = {}
    while True:
        going = [run for run in runs if client.run(run).state != "ended"]
        known = client.metrics(*runs, group=group)
        there = {series.name for series in known}
        chosen = [name for name in names if name in there]
        if known and (chosen or not names):
            for series in client.metrics(*runs, names=chosen, group=group, points=MOST_NEW):
                _show_new(series, shown)
        if not going:
            return
        time.sleep(FOLLOW_S)


def _show_new(series: api.MetricSeries, shown: dict[tuple[str, str, int], float]) -> None:
    key = series.run, metricview.series_name(series), series.rank
    after = shown.get(key, float("-inf"))
    for step, at, value in metricview.points_of(series):
        if at <= after:
            continue
        shown[key] = max(at, shown.get(key, at))
        if wants_json():
            named = json_form(series)
            named = {name: named[name] for name in ("run", "run_name", "group", "name", "rank")}
            print_json({**named, "step": step, "time": at, "value": value})
        else:
            print_text(metricview.point_line(series, step, value))


def every_point(client: Client, found: Sequence[api.MetricSeries]) -> Iterator[api.MetricSeries]:
    """The same series with all their points, requested one by one."""
    for series in found:
        whole = client.metrics(
            series.run, names=(series.name,), group=series.group, points=max(2, series.count), every_rank=True
        )
        yield from (each for each in whole if each.rank == series.rank)


def write_csv(found: Iterable[api.MetricSeries]) -> None:
    """Write a line for each point to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for series in found:
        named = [series.run, series.run_name, series.group, series.name, series.rank]
        for step, at, value in metricview.points_of(series):
            writer.writerow([*named, "" if step is None else step, at, value])


def write_tensorboard(found: Iterable[api.MetricSeries], directory: str) -> None:
    """Write an event file for each run, in its own directory. Raises Unavailable if one cannot be written."""
    from tarmac.client.tensorboard import write_events

    for run, series in groupby(found, key=lambda each: f"{each.run_name}-{each.run}"):
        with written("--tensorboard", directory):
            path = write_events(Path(directory) / run, series)
        remark(f"written: {path}")
