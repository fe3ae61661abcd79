"""The trials of an experiment as a picture: their curves, and each parameter against the metric.

Called by `tarmac experiment show --plot`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.experimentview import number_text, value_at, varied_parameters
from tarmac.cli.views.metricplot import curve_of, steps_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tarmac import api

BEST, OTHER = "#d55e00", "#0072b2"
MOST_PARAMETERS = 5
COLUMNS = 3


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
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = varied_parameters(drawn.experiment)[:MOST_PARAMETERS]
    count = 1 + len(names)
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "tarmac"}):
        figure = Figure(figsize=(5.0 * columns, 3.4 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel in axes[count:]:
            panel.remove()
        _draw_curves(axes[0], drawn)
        for panel, name in zip(axes[1:], names, strict=False):
            _draw_parameter(panel, drawn, name)
        for panel in axes[:count]:
            panel.grid(visible=True, color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
        picture = BytesIO()
        figure.savefig(picture, format=path.suffix[1:].lower(), dpi=150)
    path.write_bytes(picture.getvalue())


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
