"""Begins an experiment from a run file and follows it to its end. Used by `run` and `experiment`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.output import print_json, print_text, print_warnings
from tarmac.cli.views.experimentview import (
    best_line,
    number_text,
    preview_text,
    summary_lines,
    trial_state,
    trials_table,
)
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.codec import json_form
from tarmac.model.errors import NotFound
from tarmac.model.text import listed, suggestion

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

LOOK_S = 0.5
"""Interval between polls of the trials while they are followed."""

MOST_NAMES = 8
"""Maximum number of metrics named in a hint."""

RUNS_AT_ONCE = 50
"""Maximum number of trials in one request."""

EXIT_CODES = {"completed": 0, "failed": 1, "stopped": 130}


def begin(client: Client, request: dict[str, Any], key: str | None, *, detach: bool, as_json: bool) -> int:
    """Create an experiment, and follow it unless `detach`; return the exit code."""
    record = client.create_experiment(**request, idempotency_key=key)
    if detach:
        if as_json:
            print_json(record)
        else:
            print_warnings(record.warnings)
            print_text(record.id)
        return 0
    if not as_json:
        print_warnings(record.warnings)
        print_text(f"experiment {record.name} ({record.id}) begins; Ctrl-C leaves it alone", err=True)
    return follow_experiment(client, record.id, as_json=as_json)


def sweep_of(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The values of `--sweep`, by parameter; raises UsageError for a repeated parameter."""
    found: dict[str, str] = {}
    for name, values in pairs:
        if name in found:
            both = f"{found[name]},{values}"
            raise click.UsageError(
                f"--sweep {name} stands there twice; give all its values at once: {name}={both}"
            )
        found[name] = values
    return found


def print_preview(client: Client, request: dict[str, Any], *, as_json: bool) -> None:
    """Print the number and length of a search's trials, without starting it."""
    found = client.preview_search(**request)
    if as_json:
        print_json(found)
    else:
        print_text(preview_text(found))


def follow_experiment(client: Client, experiment_id: str, *, as_json: bool) -> int:
    """Print the end of each trial, then all trials and the best; return the exit code."""
    ended: set[int] = set()
    pause = threading.Event()
    while True:
        record = client.experiment(experiment_id)
        trials = client.trials(experiment_id)
        for trial in trials:
            if trial.end is not None and trial.number not in ended:
                ended.add(trial.number)
                if not as_json:
                    print_text(_end_line(record, trial), err=True)
        if record.state == "ended":
            break
        pause.wait(LOOK_S)
    show(client, record, as_json=as_json)
    return EXIT_CODES.get(record.outcome or "", 1)


def show(client: Client, record: api.Experiment, *, as_json: bool) -> None:
    """Print an experiment, the table of its trials, and the best of them."""
    trials, best = client.trials(record.id), client.best_trials(record.id)
    if as_json:
        print_json({**json_form(record), "trials": trials, "best": best[0] if best else None})
        return
    for line in summary_lines(record, trials):
        print_text(line)
    if trials:
        print_text(trials_table(record, trials, stdout_terminal(), metrics_of(client, record, trials)))
    if best:
        print_text(best_line(record, best[0]))
    elif record.search.metric and record.state == "ended":
        print_text(str(unreported(client, record, trials)))


def unreported(client: Client, record: api.Experiment, trials: Sequence[api.Trial]) -> NotFound:
    """The error that no trial reported the metric of its search, with the metrics that they did report."""
    metric, runs = record.search.metric, [trial.run for trial in trials][:RUNS_AT_ONCE]
    names = sorted({each.name for each in client.metrics(*runs)}) if runs else []
    hint = suggestion(metric, names, f"they reported {listed(names, MOST_NAMES)}") if names else None
    return NotFound(f"no trial of {record.name} has reported {metric or 'a metric'}", hint=hint)


def metrics_of(
    client: Client, record: api.Experiment, trials: Sequence[api.Trial], *, points: int | None = None
) -> list[api.MetricSeries]:
    """The metrics that the trials reported: the metric of the search, or all if it has none.

    Without `points` and with a metric, no request is sent: the trials' records hold its values.
    """
    metric, runs = record.search.metric, [trial.run for trial in trials]
    if metric and points is None:
        return []
    if metric:
        runs = [trial.run for trial in trials if trial.latest is not None]
    series: list[api.MetricSeries] = []
    for at in range(0, len(runs), RUNS_AT_ONCE):
        names = [metric] if metric else []
        series += client.metrics(*runs[at : at + RUNS_AT_ONCE], names=names, points=points)
    return sorted(series, key=lambda each: each.name)


def _end_line(record: api.Experiment, trial: api.Trial) -> str:
    metric = record.search.metric
    best = f", best {metric} {number_text(trial.best)}" if trial.best is not None else ""
    at = f" at {number_text(trial.at)}" if trial.at is not None else ""
    return f"trial {trial.number}: {trial_state(trial)}{at}{best}"
