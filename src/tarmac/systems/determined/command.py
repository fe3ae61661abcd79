"""`tarmac experiment`: the commands of Determined's users, for the same runs as every other command."""

import re
import sys
from pathlib import Path
from typing import Any

import click

from tarmac.artifacts.code.tree import check_size, scan
from tarmac.cli.commands import acts, search
from tarmac.cli.commands.ls import ls
from tarmac.cli.commands.queue import PAGE, change_queue, joined, read_options
from tarmac.cli.commands.show import show
from tarmac.cli.dialogue import answer, connect
from tarmac.cli.following import follow_submitted
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_run, pairs_option
from tarmac.cli.overriding import override_options, overrides
from tarmac.cli.runfile import read_text
from tarmac.cli.selecting import pages
from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.errors import InvalidInput, IsExperiment, NotFound
from tarmac.systems.determined.context import context_of
from tarmac.systems.determined.display import queue_table
from tarmac.systems.determined.identity import experiment_id

SYSTEM = "determined"
NATIVE = "native"
_SEARCH = re.compile(r"^search\s*:", re.MULTILINE)
_COMMAND = re.compile(r"^(command|roles)\s*:", re.MULTILINE)
_CONFIGURATION = re.compile(r"^(entrypoint|searcher|hyperparameters)\s*:", re.MULTILINE)

_ABSENT = {
    "include": "copy or link it into the context directory",
    "test": "there is no test mode: run it with --rehearse 1x1 and a short searcher.max_length",
    "local": "every run of your own server is local: leave it out",
    "template": "templates are not known here: write its fields into the file, or pass --config",
}
"""Options of Determined's own command that are refused, each with a hint."""


@click.group(cls=Subcommands)
def experiment() -> None:
    """Create and follow experiments: searches over parameters, whose trials are runs.

    EXPERIMENT is one, by id or name. As with Determined's command line, it may also be a run, or its number
    as Determined would have it.
    """


@experiment.command()
@click.argument("config", type=click.Path())
@click.argument("context", metavar="[CONTEXT_DIR]", required=False, type=click.Path())
@click.option("--follow", "-f", "--follow-first-trial", is_flag=True, help="Follow it to its end.")
@pairs_option(
    *("--config", "--set", "changes"),
    help="A value in place of the file's, by its dotted path; may be repeated.",
)
@click.option("--paused", is_flag=True, help="Create it paused: `activate` starts it.")
@override_options
@click.option("--include", metavar="PATH", multiple=True, hidden=True)
@click.option("--test", "--test-mode", is_flag=True, hidden=True)
@click.option("--local", is_flag=True, hidden=True)
@click.option("--template", metavar="NAME", hidden=True)
def create(
    *,
    config: str,
    context: str | None,
    follow: bool,
    changes: tuple[tuple[str, str], ...],
    paused: bool,
    **options: Any,
) -> None:
    """Create an experiment from a run file that searches, or from a configuration of Determined.

    CONTEXT_DIR is the configuration's own directory where it is not given. What its .detignore names stays
    behind; more than 95 MB is refused. Without -f the command returns once it is created.

    \b
    tarmac experiment create const.yaml .
    tarmac experiment create const.yaml . -f --config resources.slots_per_trial=2
    """
    for name, hint in _ABSENT.items():
        if options[name]:
            raise InvalidInput(f"--{name} is not supported", hint=hint)
    text = read_text(config, what="an experiment configuration")
    directory = _directory(context) if context is not None else text.directory
    _check_context(directory)
    client = connect()
    native = _SEARCH.search(text.text) is not None
    if not native and is_one_run(text.text):
        raise InvalidInput(
            f"{config} describes one run, not an experiment",
            hint=f"tarmac run {config}, with --sweep NAME=VALUE,VALUE for an experiment",
        )
    request: dict[str, Any] = {
        **text.request(),
        "directory": directory,
        "dialect": NATIVE if native else SYSTEM,
        "extras": {"changes" if native else "parameters": dict(changes)} if changes else {},
        "overrides": overrides(options, None) | ({"paused": True} if paused else {}),
    }
    try:
        if native:
            raise IsExperiment("it searches")
        record = client.submit(**request)
    except IsExperiment:
        sys.exit(search.begin(client, request, None, detach=not follow or paused))
    if follow and not paused:
        sys.exit(follow_submitted(client, record))
    numbers = client.numbers([record.id]).get(record.id)
    number = numbers.experiment if numbers is not None else experiment_id(record.id)
    created = f"Created experiment {number} (run {record.id})"
    answer(record, created, warnings=record.warnings)


@experiment.command("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Every one, also those that ended long ago.")
@click.pass_context
def list_(ctx: click.Context, *, everything: bool) -> None:
    """List experiments, as tarmac ls --as determined."""
    ctx.invoke(ls, everything=everything, system=SYSTEM)


@experiment.command()
@click.argument("experiment_", metavar="EXPERIMENT", shell_complete=complete_run)
@click.pass_context
def describe(ctx: click.Context, *, experiment_: str) -> None:
    """Describe one experiment: its trials, or, of a single run, as tarmac show --as determined."""
    reference = _reference(experiment_)
    if search.is_search(reference):
        ctx.invoke(search.show, reference=reference, plot_to=None)
    else:
        ctx.invoke(show, run=reference, system=SYSTEM)


@experiment.command("jobs")
@click.option(
    "--resource-pool", default=DEFAULT_POOL, metavar="NAME", help="Of this pool, not the default one."
)
def queued(*, resource_pool: str) -> None:
    """List what runs and waits in a pool, in scheduling order, as det job list."""
    pools = [joined(pages) for pages in connect().queue_pages(pool=resource_pool, limit=PAGE)]
    answer({"pools": pools}, queue_table([run for pool in pools for run in pool.runs]))


@experiment.command()
@click.argument("experiment_", metavar="EXPERIMENT", shell_complete=complete_run)
@click.option("--priority", metavar="N", help="From 1, which is first, to 99; 42 is usual.")
@click.option("--weight", metavar="W", help="Its share of a fair-share pool.")
@click.option("--resource-pool", metavar="NAME", help="Another pool; a trial that runs starts again there.")
@click.option("--ahead-of", metavar="EXPERIMENT", help="Right before this one.")
@click.option("--behind-of", metavar="EXPERIMENT", help="Right after this one.")
def update(*, experiment_: str, **options: str | None) -> None:
    """Change the priority, weight, pool or place of one, as det job update."""
    values = {field: value for field, value in options.items() if value is not None}
    if len(values) != 1:
        raise click.UsageError(
            "give one of --priority, --weight, --resource-pool, --ahead-of and --behind-of"
        )
    ((field, value),) = values.items()
    run = _reference(experiment_)
    if field in ("ahead_of", "behind_of"):
        changes = [{"run": run, field: _reference(value)}]
    else:
        changes = read_options([run], {"pool" if field == "resource_pool" else field: value})
    change_queue(changes, dialect=SYSTEM)


def _verb(name: str, command: click.Command, help_text: str) -> None:
    """An alias of one of tarmac's own verbs."""

    @experiment.command(name, help=help_text)
    @click.argument(
        "experiments", metavar="EXPERIMENT...", nargs=-1, required=True, shell_complete=complete_run
    )
    @click.option("--wait", is_flag=True, help="Wait until it is done.")
    @click.pass_context
    def act(ctx: click.Context, *, experiments: tuple[str, ...], wait: bool) -> None:
        references = [_reference(item) for item in experiments]
        searches = [item for item in references if search.act_on_search(name, item)]
        if runs := tuple(item for item in references if item not in searches):
            more = {"now": True} if name == "kill" else {}
            ctx.invoke(command, runs=runs, wait=wait, **more)


_verb("pause", acts.pause, "Pause it: its trial saves and leaves its slots.")
_verb("activate", acts.resume, "Resume it from its checkpoint.")
_verb("cancel", acts.stop, "End it: its trial is asked to leave, and made to after its grace.")
_verb("kill", acts.stop, "End it without its grace.")
_verb("stop", acts.stop, "The same as cancel.")


for _command in search.SEARCH_COMMANDS:
    experiment.add_command(_command)


def is_one_run(text: str) -> bool:
    """Whether a file looks like a native run file without a search."""
    return _COMMAND.search(text) is not None and _CONFIGURATION.search(text) is None


def _directory(context: str) -> str:
    path = Path(context)
    if not path.is_dir():
        found = "is not a directory" if path.exists() else "does not exist"
        raise InvalidInput(f"the context {context} {found}", hint="give the directory of the code, such as .")
    return str(path.absolute())


def _check_context(directory: str) -> None:
    """Refuse a context that is too large, before storing any of it."""
    code = context_of(directory)
    check_size(
        scan(Path(directory), code=code), source=directory, code=code, limit_bytes=code.limit_bytes or 0
    )


def _reference(text: str) -> str:
    """The run with this experiment number, among all runs; other texts already name a run."""
    found = search.numbered(text)
    if found != text or not text.isdecimal():
        return found
    for run in pages(connect(), None, {"everything": True}):
        if str(experiment_id(run.id)) == text:
            return str(run.id)
    raise NotFound(f"there is no experiment {text}", hint="tarmac experiment list --all names them")
