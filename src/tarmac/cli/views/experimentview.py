"""Experiments, their trials and previews as text. Used by `tarmac experiment` and `tarmac run`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.table import Cell, Column, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from tarmac import api

_STYLES = {"completed": "green", "failed": "red", "stopped": "yellow", "active": "green", "paused": "yellow"}


MOST_METRICS = 4
"""Maximum number of metric columns, if the search has no metric."""


def experiments_table(experiments: Sequence[api.Experiment], terminal: Terminal) -> str:
    """One line for each experiment."""
    heads = (
        Column(title="ID"),
        Column(title="NAME", flexible=True),
        Column(title="STATE"),
        Column(title="METHOD"),
        Column(title="METRIC", optional=True),
        Column(title="PROGRESS", right=True),
        Column(title="USER", optional=True),
    )
    rows = [
        (
            each.id,
            each.name,
            Cell(state_of(each), _STYLES.get(state_of(each))),
            each.search.method,
            each.search.metric,
            f"{each.progress:.0%}",
            each.user,
        )
        for each in experiments
    ]
    return render(heads, rows, terminal)


def state_of(experiment: api.Experiment) -> str:
    """The outcome of an ended experiment, else its state."""
    return experiment.outcome or experiment.state


def trials_table(
    experiment: api.Experiment,
    trials: Sequence[api.Trial],
    terminal: Terminal,
    metrics: Sequence[api.MetricSeries] = (),
) -> str:
    """A line for each trial, with parameters and metrics.

    `metrics` are those reported in an experiment that has no metric of its own.
    """
    varied = varied_parameters(experiment)
    metric = experiment.search.metric
    names = [] if metric else list(dict.fromkeys(each.name for each in metrics))[:MOST_METRICS]
    last = {(each.run, each.name): each.last for each in metrics}
    heads = (
        Column(title="TRIAL", right=True),
        *(Column(title=name) for name in varied),
        *((Column(title=f"BEST {metric}", right=True), Column(title="AT", right=True)) if metric else ()),
        *((Column(title=f"LAST {metric}", right=True, optional=True),) if metric else ()),
        *(Column(title=f"LAST {name}", right=True) for name in names),
        Column(title="STATE"),
        Column(title="RUN", optional=True),
    )
    rows: list[tuple[Cell | str, ...]] = [
        (
            str(trial.number),
            *(number_text(value_at(trial.parameters, name)) for name in varied),
            *(map(number_text, (trial.best, trial.best_at, trial.latest)) if metric else ()),
            *(number_text(last.get((trial.run, name))) for name in names),
            Cell(trial_state(trial), _STYLES.get(trial_state(trial))),
            trial.run,
        )
        for trial in trials
    ]
    return render(heads, rows, terminal)


def trial_state(trial: api.Trial) -> str:
    """How the trial ended, else its state."""
    if trial.end == "closed":
        return "ended early"
    if trial.end is not None:
        return trial.end
    return "waits for the search" if trial.state == "waiting" else trial.run_state or trial.state


def summary_lines(experiment: api.Experiment, trials: Sequence[api.Trial]) -> Iterator[str]:
    """A summary of one experiment, line by line."""
    search = experiment.search
    yield f"{experiment.name} ({experiment.id}): {state_of(experiment)}, {experiment.progress:.0%}"
    if experiment.message:
        yield experiment.message
    goal = "smallest" if search.smaller_is_better else "largest"
    metric = f" for the {goal} {search.metric}" if search.metric else ""
    most = f" of {search.max_trials}" if search.max_trials is not None else ""
    noun = "trial" if not most and len(trials) == 1 else "trials"
    yield f"{search.method}{metric}: {len(trials)}{most} {noun} begun"
    if experiment.parent:
        yield f"forked from {experiment.parent}"


def best_line(experiment: api.Experiment, best: api.Trial) -> str:
    """The best trial and its parameters, in one line."""
    values = ", ".join(
        f"{name}={number_text(value_at(best.parameters, name))}" for name in varied_parameters(experiment)
    )
    metric = experiment.search.metric or "metric"
    return f"best: trial {best.number}, {metric} {number_text(best.best)} ({values}), run {best.run}"


def preview_text(lines: Sequence[api.PreviewLine]) -> str:
    """The number of trials of each length, one line for each."""
    return "\n".join(
        f"{_count(line.trials)} to {'its' if line.trials == 1 else 'their'} own end"
        if line.length is None
        else f"{_count(line.trials)} of length {line.length}"
        for line in lines
    )


def _count(trials: int) -> str:
    return "1 trial" if trials == 1 else f"{trials} trials"


def varied_parameters(experiment: api.Experiment) -> list[str]:
    """The parameters that differ between trials, by path."""
    return list(_ranges(experiment.search.parameters))


def _ranges(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in parameters.items():
        if not isinstance(value, Mapping):
            continue
        if {"log", "uniform", "int", "choice"} & value.keys() and len(value) <= 2:
            yield f"{prefix}{name}"
        else:
            yield from _ranges(value, f"{prefix}{name}.")


def value_at(parameters: Mapping[str, Any], name: str) -> Any:
    """The value at a path; None if there is none."""
    found: Any = parameters
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def number_text(value: Any) -> str:
    """A value in a table; a number with the digits that a comparison needs."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)
