"""The subcommands of `tarmac experiment` that are about searches over parameters. Joined by `experiment`."""

from __future__ import annotations

import re
from typing import Any

import click

from tarmac.cli.options import KeyValue, json_option
from tarmac.cli.output import print_json, print_text
from tarmac.cli.runfile import read_text
from tarmac.cli.searches import show as show_record
from tarmac.cli.session import connect
from tarmac.cli.views.experimentview import (
    best_line,
    experiments_table,
    preview_text,
    state_of,
    trials_table,
)
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.errors import NotFound

_SEARCH = re.compile(r"^search\s*:", re.MULTILINE)

_ARGUMENT = click.argument("reference", metavar="EXPERIMENT")


def is_native(text: str) -> bool:
    """Whether a file is a native run file that searches; a configuration of Determined has a `searcher`."""
    return _SEARCH.search(text) is not None


def act_on_search(verb: str, reference: str, *, as_json: bool) -> bool:
    """Do this to the experiment of that name; False where there is none, and a run may be meant."""
    client = connect()
    acts = {"pause": client.pause_experiment, "activate": client.activate_experiment}
    try:
        record = acts.get(verb, client.stop_experiment)(reference)
    except NotFound:
        return False
    if as_json:
        print_json(record)
    else:
        print_text(f"{record['name']} ({record['id']}): {state_of(record)}")
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
    print_text(experiments_table(page["experiments"], stdout_terminal()))


@click.command("show")
@_ARGUMENT
@json_option
def show(*, reference: str, as_json: bool) -> None:
    """Show an experiment, its trials and the best of them."""
    client = connect()
    record = client.experiment(reference)
    show_record(record, client.trials(record["id"]), client.best_trials(record["id"]), as_json=as_json)


@click.command("trials")
@_ARGUMENT
@json_option
def trials(*, reference: str, as_json: bool) -> None:
    """Print the parameters of every trial against its metrics."""
    client = connect()
    record = client.experiment(reference)
    found = client.trials(record["id"])
    if as_json:
        print_json(found)
        return
    print_text(trials_table(record, found, stdout_terminal()))


@click.command("best")
@_ARGUMENT
@click.option("-n", "count", type=click.IntRange(min=1), default=1, metavar="N", help="The best N.")
@json_option
def best(*, reference: str, count: int, as_json: bool) -> None:
    """Print the trial with the best metric, or the best N."""
    client = connect()
    record = client.experiment(reference)
    found = client.best_trials(record["id"], limit=count)
    if as_json:
        print_json(found)
        return
    if not found:
        raise NotFound(
            f"no trial of {record['name']} has reported {record['search']['metric'] or 'a metric'}"
        )
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
    options: dict[str, Any] = {"sweep": dict(sweep)} if sweep else {}
    found = connect().preview_search(text.text, filename=text.filename, directory=text.directory, **options)
    if as_json:
        print_json(found)
        return
    print_text(preview_text(found))


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
        print_text(record["id"])


@click.command("rm")
@_ARGUMENT
@json_option
def remove(*, reference: str, as_json: bool) -> None:
    """Remove a search that has ended, with the runs of its trials, their logs and artifacts."""
    _print(connect().remove_experiment(reference), as_json=as_json)


def _print(record: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        print_text(f"{record['name']} ({record['id']}): {state_of(record)}")


SEARCH_COMMANDS = (list_searches, show, trials, best, preview, go_on, fork, remove)
