"""The subcommands of `tarmac experiment` for searches over parameters, and how one begins and is followed.

Joined by `experiment`; used by `run`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, print_text, print_warnings, remark, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag, pairs_option, plot_option
from tarmac.cli.runfile import read_text
from tarmac.cli.views import experimentview
from tarmac.cli.views.errors import written
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client import Client
from tarmac.model.codec import json_form
from tarmac.model.errors import NotFound, listed, suggestion

LOOK_S = 0.5
"""Interval between polls of the trials while they are followed."""

MOST_NAMES = 8

RUNS_AT_ONCE = 50
"""Maximum number of trials in one request."""

EXIT_CODES = {"completed": 0, "failed": 1, "stopped": 130}

PLOT_POINTS = 500
LOSS = "loss"
"""The metric to draw, if the search names none."""


def numbered(text: str) -> str:
    """The id for a number of an experiment (of a run, if it is a single one); other texts unchanged."""
    if text.isdecimal():
        with suppress(NotFound):
            return connect().numbered_experiment(int(text))
    return text


_ARGUMENT = click.argument(
    "reference", metavar="EXPERIMENT", callback=lambda _ctx, _parameter, value: numbered(value)
)


def is_search(reference: str) -> bool:
    """Whether there is an experiment of that name."""
    try:
        connect().experiment(reference)
    except NotFound:
        return False
    return True


def act_on_search(verb: str, reference: str) -> bool:
    """Apply the verb to the experiment of that name; False if there is none, so that it may name a run."""
    client = connect()
    acts: Mapping[str, Callable[[str], api.Experiment]] = {
        "pause": client.pause_experiment,
        "activate": client.activate_experiment,
        "kill": partial(client.stop_experiment, now=True),
    }
    try:
        record = acts.get(verb, client.stop_experiment)(reference)
    except NotFound:
        return False
    _print(record)
    return True


@command("ls")
@flag("--all", "-a", "everything", help="Also those that were archived.")
@flag("--mine", help="Only your own.")
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=50, metavar="N", help="At most N.")
def list_searches(*, everything: bool, mine: bool, limit: int) -> None:
    """List searches, newest first."""
    page = connect().experiments(archived=None if everything else False, mine=mine, limit=limit)
    empty = "no experiment yet: tarmac run FILE --sweep NAME=VALUE,VALUE begins one"
    print_list("experiments", page.experiments, experimentview.EXPERIMENTS, empty=empty, document=page)
    if page.next is not None and not wants_json():
        remark("there are older ones: --limit shows more")


@command("show")
@_ARGUMENT
@plot_option("Draw the curves of its trials: here, or into FILE.png or .svg with its parameters.")
def show(*, reference: str, plot_to: str | None) -> None:
    """Show an experiment, its trials and the best of them."""
    client = connect()
    record = client.experiment(reference)
    if plot_to is not None:
        _plot(client, record, plot_to)
        return
    print_experiment(client, record)


def _plot(client: Client, record: api.Experiment, plot_to: str) -> None:
    from tarmac.cli.views.metricplot import Drawn, curves_text, plot_trials

    trials = client.trials(record.id)
    series = metrics_of(client, record, trials, points=PLOT_POINTS)
    if not series:
        raise unreported(client, record, trials)
    if not plot_to:
        print_text(curves_text(series, stdout_terminal()))
        return
    names = [each.name for each in series]
    metric = LOSS if LOSS in names else names[0]
    series = [each for each in series if each.name == metric]
    values = {trial.run: trial.best for trial in trials if trial.best is not None} or {
        each.run: each.last for each in series if isinstance(each.last, float)
    }
    best = client.best_trials(record.id)
    drawn = Drawn(
        experiment=record,
        trials=trials,
        metric=metric,
        series=series,
        values=values,
        best=best[0] if best else None,
    )
    with written("--plot", plot_to):
        plot_trials(drawn, Path(plot_to))
    remark(f"drawn: {plot_to}")


@command("trials")
@_ARGUMENT
def trials(*, reference: str) -> None:
    """Print the parameters of every trial against its metrics."""
    client = connect()
    record = client.experiment(reference)
    found = client.trials(record.id)
    metrics = metrics_of(client, record, found) if not wants_json() else ()
    answer(found, experimentview.trials_table(record, found, stdout_terminal(), metrics))


@command("best")
@_ARGUMENT
@click.option("-n", "count", type=click.IntRange(min=1), default=1, metavar="N", help="The best N.")
def best(*, reference: str, count: int) -> None:
    """Print the trial with the best metric, or the best N."""
    client = connect()
    record = client.experiment(reference)
    found = client.best_trials(record.id, limit=count)
    if not found and not wants_json():
        metric, name = record.search.metric, record.name
        if not metric:
            raise NotFound(
                f"the search of {name} names no metric, so none of its trials is the best",
                hint="write 'search: {method: grid, metric: NAME}' into the run file; --sweep keeps it",
            )
        raise unreported(client, record, client.trials(record.id))
    text = experimentview.trials_table(record, found, stdout_terminal())
    if count == 1 and found:
        text = experimentview.best_line(record, found[0])
    answer(found, text)


@command("preview")
@click.argument("file", type=click.Path())
@pairs_option("--sweep", help="As with tarmac run.")
def preview(*, file: str, sweep: tuple[tuple[str, str], ...]) -> None:
    """Print how many trials of what length a file's search comes to; nothing is started."""
    more = {"sweep": sweep_of(sweep)} if sweep else {}
    print_preview(connect(), read_text(file, what="a run file").request() | more)


@command("continue")
@_ARGUMENT
def go_on(*, reference: str) -> None:
    """Continue a search that has ended: trials that failed or were stopped run again."""
    _print(connect().continue_experiment(reference))


@command("fork")
@_ARGUMENT
@pairs_option("--set", "changes", metavar="PATH=VALUE", help="Change a field of its file.")
def fork(*, reference: str, changes: tuple[tuple[str, str], ...]) -> None:
    """Begin another search of the same file and code, with changes."""
    record = connect().create_experiment(fork=reference, extras={"changes": dict(changes)} if changes else {})
    answer(record, record.id)


@command("rm")
@_ARGUMENT
def remove(*, reference: str) -> None:
    """Remove a search that has ended, with the runs of its trials, their logs and artifacts."""
    record = connect().remove_experiment(reference)
    text = f"{record.name} ({record.id}): removed, with the runs of its trials"
    answer(record, text)


def _print(record: api.Experiment) -> None:
    answer(record, f"{record.name} ({record.id}): {experimentview.state_of(record)}")


def begin(client: Client, request: dict[str, Any], key: str | None, *, detach: bool) -> int:
    """Create an experiment, and follow it unless `detach`; return the exit code."""
    record = client.create_experiment(**request, idempotency_key=key)
    if detach:
        answer(record, record.id, warnings=record.warnings)
        return 0
    if not wants_json():
        print_warnings(record.warnings)
        print_text(f"experiment {record.name} ({record.id}) begins; Ctrl-C leaves it alone", err=True)
    return follow_experiment(client, record.id)


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


def print_preview(client: Client, request: dict[str, Any]) -> None:
    """Print the number and length of a search's trials, without starting it."""
    found = client.preview_search(**request)
    answer(found, experimentview.preview_text(found))


def follow_experiment(client: Client, experiment_id: str) -> int:
    """Print the end of each trial, then all trials and the best; return the exit code."""
    ended: set[int] = set()
    while True:
        record = client.experiment(experiment_id)
        trials = client.trials(experiment_id)
        for trial in trials:
            if trial.end is not None and trial.number not in ended:
                ended.add(trial.number)
                if not wants_json():
                    print_text(_end_line(record, trial), err=True)
        if record.state == "ended":
            break
        time.sleep(LOOK_S)
    print_experiment(client, record)
    return EXIT_CODES.get(record.outcome or "", 1)


def print_experiment(client: Client, record: api.Experiment) -> None:
    """Print an experiment, the table of its trials, and the best of them."""
    trials, best = client.trials(record.id), client.best_trials(record.id)
    lines: list[str] = []
    if not wants_json():
        lines += experimentview.summary_lines(record, trials)
        if trials:
            metrics = metrics_of(client, record, trials)
            lines.append(experimentview.trials_table(record, trials, stdout_terminal(), metrics))
        if best:
            lines.append(experimentview.best_line(record, best[0]))
        elif record.search.metric and record.state == "ended":
            lines.append(str(unreported(client, record, trials)))
    document = {**json_form(record), "trials": trials, "best": best[0] if best else None}
    answer(document, "\n".join(lines))


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
    best = f", best {metric} {experimentview.number_text(trial.best)}" if trial.best is not None else ""
    at = f" at {experimentview.number_text(trial.at)}" if trial.at is not None else ""
    return f"trial {trial.number}: {experimentview.trial_state(trial)}{at}{best}"


SEARCH_COMMANDS = (list_searches, show, trials, best, preview, go_on, fork, remove)
