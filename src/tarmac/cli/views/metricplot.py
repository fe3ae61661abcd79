"""Curves of metrics and trials: a picture by matplotlib, or lines of blocks in a terminal.

Called by `tarmac metrics --plot` and `tarmac experiment show --plot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import api
from tarmac.cli.views.experimentview import number_text, value_at, varied_parameters
from tarmac.cli.views.metricview import metric_text, points_of, series_name
from tarmac.cli.views.plotting import COLOURS, picture
from tarmac.cli.views.table import Column, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
ODD = "!"
"""Replaces a block that contains a value that is not finite."""

LINE_COLUMNS = 48
MOST_IN_LEGEND = 16

BEST, OTHER = "#d55e00", "#0072b2"
MOST_PARAMETERS = 5
METRIC_COLUMNS = TRIAL_COLUMNS = 3


@contextmanager
def _panels(count: int, columns: int, path: Path) -> Iterator[Sequence[Axes]]:
    """Empty panels for `count` curves, which are drawn into the file at the end. Raises OSError."""
    columns = min(count, columns)
    rows = -(-count // columns)
    with picture(path, 5.0 * columns, 3.4 * rows) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel in axes[count:]:
            panel.remove()
        yield list(axes[:count])


def plot(found: Sequence[api.MetricSeries], path: Path) -> None:
    """Draw curves into a file: a panel for each metric, a line for each run. Raises OSError."""
    metrics = _by_metric(found)
    runs = list(dict.fromkeys(series.run for series in found))
    colours = {run: COLOURS[number % len(COLOURS)] for number, run in enumerate(runs)}
    with _panels(len(metrics), METRIC_COLUMNS, path) as panels:
        for panel, (title, series_of) in zip(panels, metrics, strict=True):
            panel.set_title(title, loc="left")
            steps = all(None not in steps_of(each) for each in series_of)
            panel.set_xlabel("step" if steps else "seconds since the first report")
            for each in series_of:
                at, values = curve_of(each, by_step=steps)
                label = each.run_name if len(runs) <= MOST_IN_LEGEND else None
                marker = "." if len(values) < 2 else None
                panel.plot(at, values, color=colours[each.run], linewidth=1.1, label=label, marker=marker)
            if 1 < len(runs) <= MOST_IN_LEGEND:
                panel.legend(frameon=False)


def curves_text(found: Sequence[api.MetricSeries], terminal: Terminal) -> str:
    """A line of blocks for each series; those of one metric share their scale."""
    table: list[Column[object]] = [
        Column("METRIC"),
        Column("RUN"),
        Column("CURVE"),
        Column("FIRST", right=True, optional=True),
        Column("LAST", right=True),
    ]
    rows = []
    for title, series_of in _by_metric(found):
        finite = [value for each in series_of for value in _values(each) if isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
        for each in series_of:
            values = _values(each)
            begin = metric_text(values[0]) if values else ""
            line = blocks(values, low=low, high=high, width=LINE_COLUMNS)
            rows.append((title, each.run_name, line, begin, metric_text(each.last)))
    return render(table, rows, terminal)


def blocks(values: Sequence[float], *, low: float, high: float, width: int) -> str:
    """Values as blocks from low to high; values that share a column are averaged."""
    count = min(width, len(values))
    cells = []
    for number in range(count):
        part = values[len(values) * number // count : len(values) * (number + 1) // count]
        if not all(map(isfinite, part)):
            cells.append(ODD)
            continue
        share = (sum(part) / len(part) - low) / (high - low) if high > low else 0.5
        cells.append(BLOCKS[min(len(BLOCKS) - 1, max(0, int(share * len(BLOCKS))))])
    return "".join(cells)


def _by_metric(found: Iterable[api.MetricSeries]) -> list[tuple[str, list[api.MetricSeries]]]:
    ordered = sorted(found, key=series_name)
    return [(title, list(series_of)) for title, series_of in groupby(ordered, key=series_name)]


def _values(series: api.MetricSeries) -> list[float]:
    return [float(value) for _, _, value in points_of(series)]


def steps_of(series: api.MetricSeries) -> Sequence[int | None]:
    """The steps of a series' points."""
    return [step for step, _, _ in points_of(series)]


def curve_of(series: api.MetricSeries, *, by_step: bool) -> tuple[list[float], list[float]]:
    """The positions of a series' points, by step or by seconds since the first, and their values."""
    points = points_of(series)
    return [float(step or 0) if by_step else at - points[0][1] for step, at, _ in points], _values(series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The data of a plot: an experiment, its trials, the curves of one metric, and its value for each run.

    `best` is the trial that the experiment ranks first; None if it ranks none.
    """

    experiment: api.Experiment
    trials: Sequence[api.Trial]
    metric: str
    series: Sequence[api.MetricSeries]
    values: Mapping[str, float]
    best: api.Trial | None


def plot_trials(drawn: Drawn, path: Path) -> None:
    """Draw the curve of each trial, the best one highlighted; then each parameter. Raises OSError."""
    names = varied_parameters(drawn.experiment)[:MOST_PARAMETERS]
    with _panels(1 + len(names), TRIAL_COLUMNS, path) as panels:
        _draw_curves(panels[0], drawn)
        for panel, name in zip(panels[1:], names, strict=True):
            _draw_parameter(panel, drawn, name)


def _draw_curves(panel: Axes, drawn: Drawn) -> None:
    panel.set_title(f"{drawn.experiment.name}: {drawn.metric} of {len(drawn.series)} trials", loc="left")
    steps = all(None not in steps_of(each) for each in drawn.series)
    panel.set_xlabel("step" if steps else "seconds since the first report")
    panel.locator_params(axis="x", integer=steps)
    best = drawn.best.run if drawn.best is not None else None
    for each in sorted(drawn.series, key=lambda each: each.run == best):
        at, values = curve_of(each, by_step=steps)
        marker = "." if len(values) < 2 else None
        if drawn.best is not None and each.run == best:
            label = f"best: trial {drawn.best.number}, {number_text(drawn.best.best)}"
            panel.plot(at, values, color=BEST, linewidth=1.8, label=label, marker=marker)
            panel.legend(frameon=False)
        else:
            panel.plot(at, values, color=OTHER, linewidth=0.8, alpha=0.45, marker=marker)


def _draw_parameter(panel: Axes, drawn: Drawn, name: str) -> None:
    """Draw the metric of each trial over one parameter; values that are not numbers become labels."""
    reported = [trial for trial in drawn.trials if trial.run in drawn.values]
    values = [value_at(trial.parameters, name) for trial in reported]
    bounds = value_at(drawn.experiment.search.parameters, name) or {}
    words = "choice" in bounds or not all(_is_number(value) for value in values)
    at: list[Any] = list(map(number_text, values)) if words else values
    panel.set_title(f"{drawn.metric} by {name}", loc="left")
    panel.set_xlabel(name)
    if "log" in bounds:
        panel.set_xscale("log")
    metrics = [drawn.values[trial.run] for trial in reported]
    panel.scatter(at, metrics, s=14, color=OTHER, alpha=0.6, linewidths=0)
    for where, value, trial in zip(at, metrics, reported, strict=True):
        if drawn.best is not None and trial.run == drawn.best.run:
            panel.scatter([where], [value], s=36, color=BEST, linewidths=0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
