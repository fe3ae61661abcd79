"""The subcommands of `tarmac experiment` for searches over parameters. Joined by `experiment`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.options import KeyValue, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.runfile import read_text
from tarmac.cli.searches import metrics_of, print_preview, sweep_of, unreported
from tarmac.cli.searches import show as show_record
from tarmac.cli.session import connect
from tarmac.cli.views.experimentview import (
    best_line,
    experiments_table,
    state_of,
    trials_table,
)
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

PLOT_POINTS = 500
LOSS = "loss"
"""The metric to draw, if the search names none."""

_SEARCH = re.compile(r"^search\s*:", re.MULTILINE)
_COMMAND = re.compile(r"^(command|roles)\s*:", re.MULTILINE)
_DETERMINED = re.compile(r"^(entrypoint|searcher|hyperparameters)\s*:", re.MULTILINE)


def numbered(text: str) -> str:
    """The id for a number of Determined (of a run, if it is a single one); other texts unchanged."""
    if text.isdecimal():
        with suppress(NotFound):
            return connect().numbered_experiment(int(text))
    return text


_ARGUMENT = click.argument(
    "reference", metavar="EXPERIMENT", callback=lambda _ctx, _parameter, value: numbered(value)
)


def is_native(text: str) -> bool:
    """Whether a file is a native run file with a search; Determined's configurations have a `searcher`."""
    return _SEARCH.search(text) is not None


def is_one_run(text: str) -> bool:
    """Whether a file looks like a native run file without a search."""
    return _COMMAND.search(text) is not None and _DETERMINED.search(text) is None


def is_search(reference: str) -> bool:
    """Whether there is an experiment of that name."""
    try:
        connect().experiment(reference)
    except NotFound:
        return False
    return True


def act_on_search(verb: str, reference: str, *, as_json: bool) -> bool:
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
    if as_json:
        print_json(record)
    else:
        print_text(f"{record.name} ({record.id}): {state_of(record)}")
    return True


@click.command("ls")
@click.option("--all", "-a", "everything", is_flag=True, help="Also those that were archived.")
@click.option("--mine", is_flag=True, help="Only your own.")
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=50, metavar="N", help="At most N.")
@json_option
def list_searches(*, everything: bool, mine: bool, limit: int, as_json: bool) -> None:
    """List searches, newest first."""
    page = connect().experiments(archived=None if everything else False, mine=mine, limit=limit)
    if as_json:
        print_json(page)
        return
    if not page.experiments:
        remark("no experiment yet: tarmac run FILE --sweep NAME=VALUE,VALUE begins one")
        return
    print_text(experiments_table(page.experiments, stdout_terminal()))
    if page.next is not None:
        remark("there are older ones: --limit shows more")


@click.command("show")
@_ARGUMENT
@click.option(
    "--plot",
    "plot_to",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Draw the curves of its trials: here, or into FILE.png or .svg with its parameters.",
)
@json_option
def show(*, reference: str, plot_to: str | None, as_json: bool) -> None:
    """Show an experiment, its trials and the best of them."""
    if plot_to:
        from tarmac.cli.views.metricplot import require_plotting

        require_plotting(plot_to)
    client = connect()
    record = client.experiment(reference)
    if plot_to is not None:
        _plot(client, record, plot_to)
        return
    show_record(client, record, as_json=as_json)


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
    try:
        plot_trials(drawn, Path(plot_to))
    except OSError as error:
        raise Unavailable(f"--plot {plot_to!r}: it cannot be written: {error.strerror or error}") from None
    remark(f"drawn: {plot_to}")


@click.command("trials")
@_ARGUMENT
@json_option
def trials(*, reference: str, as_json: bool) -> None:
    """Print the parameters of every trial against its metrics."""
    client = connect()
    record = client.experiment(reference)
    found = client.trials(record.id)
    if as_json:
        print_json(found)
        return
    print_text(trials_table(record, found, stdout_terminal(), metrics_of(client, record, found)))


@click.command("best")
@_ARGUMENT
@click.option("-n", "count", type=click.IntRange(min=1), default=1, metavar="N", help="The best N.")
@json_option
def best(*, reference: str, count: int, as_json: bool) -> None:
    """Print the trial with the best metric, or the best N."""
    client = connect()
    record = client.experiment(reference)
    found = client.best_trials(record.id, limit=count)
    if as_json:
        print_json(found)
        return
    if not found:
        metric, name = record.search.metric, record.name
        if not metric:
            raise NotFound(
                f"the search of {name} names no metric, so none of its trials is the best",
                hint="write 'search: {method: grid, metric: NAME}' into the run file; --sweep keeps it",
            )
        raise unreported(client, record, client.trials(record.id))
    if count == 1:
        print_text(best_line(record, found[0]))
    else:
        print_text(trials_table(record, found, stdout_terminal()))


@click.command("preview")
@click.argument("file", type=click.Path())
@click.option("--sweep", multiple=True, type=KeyValue(), help="As with tarmac run.")
@json_option
def preview(*, file: str, sweep: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Print how many trials of what length a file's search comes to; nothing is started."""
    text = read_text(file, what="a run file")
    request: dict[str, Any] = {
        "source": text.text,
        "filename": text.filename,
        "directory": text.directory,
        **({"sweep": sweep_of(sweep)} if sweep else {}),
    }
    print_preview(connect(), request, as_json=as_json)


@click.command("continue")
@_ARGUMENT
@json_option
def go_on(*, reference: str, as_json: bool) -> None:
    """Go on with a search that has ended: trials that failed or were stopped run again."""
    _print(connect().continue_experiment(reference), as_json=as_json)


@click.command("fork")
@_ARGUMENT
@click.option(
    "--set",
    "changes",
    multiple=True,
    type=KeyValue(),
    metavar="PATH=VALUE",
    help="Change a field of its file.",
)
@json_option
def fork(*, reference: str, changes: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Begin another search of the same file and code, with changes."""
    record = connect().create_experiment(fork=reference, extras={"changes": dict(changes)} if changes else {})
    if as_json:
        print_json(record)
    else:
        print_text(record.id)


@click.command("rm")
@_ARGUMENT
@json_option
def remove(*, reference: str, as_json: bool) -> None:
    """Remove a search that has ended, with the runs of its trials, their logs and artifacts."""
    record = connect().remove_experiment(reference)
    if as_json:
        print_json(record)
    else:
        print_text(f"{record.name} ({record.id}): removed, with the runs of its trials")


def _print(record: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        print_text(f"{record.name} ({record.id}): {state_of(record)}")


SEARCH_COMMANDS = (list_searches, show, trials, best, preview, go_on, fork, remove)
