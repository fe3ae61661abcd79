"""Experiments, their trials and previews as text. Used by `tarmac experiment` and `tarmac run`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tarmac import api
from tarmac.cli.views.amounts import counted
from tarmac.cli.views.messages import state_cell
from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal

MOST_METRICS = 4
"""Maximum number of metric columns, if the search has no metric."""


def state_of(experiment: api.Experiment) -> str:
    """The outcome of an ended experiment, else its state."""
    return experiment.outcome or experiment.state


EXPERIMENTS: Table[api.Experiment] = (
    Column("ID", lambda experiment, _: experiment.id),
    Column("NAME", lambda experiment, _: experiment.name, flexible=True),
    Column("STATE", lambda experiment, _: state_cell(state_of(experiment))),
    Column("METHOD", lambda experiment, _: experiment.search.method),
    Column("METRIC", lambda experiment, _: experiment.search.metric, optional=True),
    Column("PROGRESS", lambda experiment, _: f"{experiment.progress:.0%}", right=True),
    Column("USER", lambda experiment, _: experiment.user, optional=True),
)


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
    table: list[Column[api.Trial]] = [Column("TRIAL", lambda trial, _: trial.number, right=True)]
    table += [Column(name, partial(_parameter, name)) for name in varied]
    if metric:
        table += [
            Column(f"BEST {metric}", lambda trial, _: number_text(trial.best), right=True),
            Column("AT", lambda trial, _: number_text(trial.best_at), right=True),
            Column(f"LAST {metric}", lambda trial, _: number_text(trial.latest), right=True, optional=True),
        ]
    table += [Column(f"LAST {name}", partial(_last, last, name), right=True) for name in names]
    table += [
        Column("STATE", lambda trial, _: state_cell(trial_state(trial))),
        Column("RUN", lambda trial, _: trial.run, optional=True),
    ]
    return table_text(table, trials, terminal)


def _parameter(name: str, trial: api.Trial, _now: float) -> str:
    return number_text(value_at(trial.parameters, name))


def _last(values: Mapping[tuple[str, str], Any], name: str, trial: api.Trial, _now: float) -> str:
    return number_text(values.get((trial.run, name)))


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
        f"{counted(line.trials, 'trial')} to {'its' if line.trials == 1 else 'their'} own end"
        if line.length is None
        else f"{counted(line.trials, 'trial')} of length {line.length}"
        for line in lines
    )


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
