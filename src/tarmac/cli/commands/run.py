"""`tarmac run`: submit a run and follow it to its end; the command that most people use most.

What only a follower or a dry run needs is imported there: `tarmac run --detach` imports neither.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.options import KeyValue, complete_run, json_option
from tarmac.cli.output import print_json, print_text, print_warnings
from tarmac.cli.reading import How, how_of, reading_options
from tarmac.cli.runfile import STDIN, from_command, read_run_file, rehearsal_of
from tarmac.cli.session import connect
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.model.errors import IsExperiment

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

_COMMAND = "tarmac.command"

_PLAIN = (
    *("name", "slots", "cluster", "pool", "shard", "mode", "max_rapid_cycles"),
    *("priority", "weight", "time_limit", "retries", "rehearse", "slot_type", "image", "nodes", "array"),
)
"""Options that say the same as a field of a run file."""


class RunCommand(click.Command):
    """`run`, with everything after `--` kept aside as the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_COMMAND] = args[:at], tuple(args[at + 1 :])
        rest = super().parse_args(ctx, args)
        if rest:
            raise click.UsageError(f"write a command after --: -- {shlex.join(rest)}", ctx)
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's
        return ["[OPTIONS]", "[FILE]", "[-- COMMAND...]"]


@click.command(cls=RunCommand, context_settings={"allow_extra_args": True})
@click.argument("file", required=False, type=click.Path())
@click.option("--file", "-f", "file_option", metavar="FILE", type=click.Path(), help="The same as FILE.")
@click.option("--name", metavar="NAME", help="Name of the run.")
@click.option(
    "--slots", type=click.IntRange(min=0), metavar="N", help="N slots in all, on as few nodes as possible."
)
@click.option("--gpus", type=click.IntRange(min=0), metavar="N", help="The same as --slots.")
@click.option("--gpu-type", "--slot-type", "slot_type", metavar="TYPE", help="Slots of this type only.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Split the slots over N nodes.")
@click.option("--uneven", is_flag=True, help="Split the slots unequally where no equal split fits.")
@click.option("--cluster", metavar="NAME", help="Run on this cluster.")
@click.option("--pool", metavar="NAME", help="Run in this pool.")
@click.option("--shard", metavar="NAME", help="Run in this shard of the cluster.")
@click.option(
    "--hostname", "hostnames", multiple=True, metavar="NAME", help="Only on this machine; may be repeated."
)
@click.option(
    "--exclude-hostname",
    "exclude_hostnames",
    multiple=True,
    metavar="NAME",
    help="Not on this machine; may be repeated.",
)
@click.option("--image", metavar="IMAGE", help="Run in this container image.")
@click.option("--no-container", is_flag=True, help="Run on the node itself, whatever image the file names.")
@click.option(
    "--code",
    metavar="DIR",
    type=click.Path(),
    help="Bring this directory as code, whatever the file says.",
)
@click.option("--no-code", is_flag=True, help="Bring no code, whatever the file says.")
@click.option(
    "--env-file",
    "env_files",
    multiple=True,
    metavar="FILE",
    help="Set the variables in this file, lines NAME=VALUE; --env counts more. May be repeated.",
)
@click.option(
    "--env",
    "-e",
    "variables",
    multiple=True,
    type=KeyValue(inherit=True),
    help="Set a variable; K alone copies the value from your shell. May be repeated.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="VARIABLE=NAME",
    help="Give the secret NAME as a variable; NAME alone as it was set. May be repeated.",
)
@click.option(
    "--slurm",
    "directives",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Add a directive to its job on a Slurm; NAME= drops one. May be repeated.",
)
@click.option("--label", "-l", "labels", multiple=True, type=KeyValue(), help="Add a label; may be repeated.")
@click.option("--mode", metavar="MODE", help="batch, cycle (short turns, first), interruptible or burst.")
@click.option("--max-rapid-cycles", type=int, metavar="N", help="Turns of a cycle run, 1 to 5.")
@click.option(
    "--priority", metavar="N", help="A bigger number is sooner; or lowest, low, medium, high, highest."
)
@click.option("--weight", type=float, metavar="W", help="Share of a fair-share pool, 1 by default.")
@click.option("--time-limit", metavar="DURATION", help="Stop it after this time, as 90s, 10m, 2h or 1d.")
@click.option(
    "--retries", type=click.IntRange(min=0), metavar="N", help="Start it again up to N times if it fails."
)
@click.option("--stop-on-nan", is_flag=True, help="Fail once a worker reports a metric that is not finite.")
@click.option(
    "--after",
    multiple=True,
    metavar="RUN[:ended]",
    shell_complete=complete_run,
    help="Wait until this run has completed (:ended: until it has ended, however); may be repeated.",
)
@click.option(
    "--array",
    metavar="0-99%8",
    help="Submit equal runs that differ in TARMAC_ARRAY_INDEX: indices 0 to 99, at most 8 at once.",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="ADDRESS",
    help="Tell this address of mail, or this URL, when the run has ended; may be repeated.",
)
@click.option("--fail-if-busy", is_flag=True, help="Fail at once instead of waiting for free slots.")
@reading_options
@click.option(
    "--clone", metavar="RUN", shell_complete=complete_run, help="Submit the same as this run again."
)
@click.option(
    "--resume", is_flag=True, help="With --clone: begin from the last checkpoint of that run, with its code."
)
@click.option(
    "--rehearse",
    metavar="NODESxSLOTS|FILE",
    help="On a cluster made up on this machine for this run alone: 2x1 is two nodes of one slot; FILE "
    "describes one.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show placement, commands and variables; start and keep nothing."
)
@click.option("--verbose", is_flag=True, help="With --dry-run: every variable, and what the engine is sent.")
@click.option(
    "--sweep",
    "sweep",
    multiple=True,
    type=KeyValue(),
    help="Try these values of a parameter, as lr=1e-3,1e-4 or seed=0..9: an experiment of all combinations. "
    "May be repeated.",
)
@click.option("--detach", "-d", is_flag=True, help="Do not follow it: print its id and return.")
@click.option("--idempotency-key", metavar="KEY", help="Submitting twice with the same key is one run.")
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    file: str | None,
    file_option: str | None,
    clone: str | None,
    resume: bool,
    dry_run: bool,
    verbose: bool,
    detach: bool,
    idempotency_key: str | None,
    sweep: tuple[tuple[str, str], ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a run and follow it to its end.

    FILE is a run file (- for standard input). COMMAND, after --, replaces its command; without FILE the
    command alone is the run, in a copy of the current directory.

    What its workers write goes to stdout, notes to stderr. Ctrl-C detaches and leaves the run alone.
    The exit code is the run's own.

    \b
    tarmac run run.yaml
    tarmac run run.yaml --slots 4 --env LR=0.1
    tarmac run -- python train.py --epochs 3
    """
    command: tuple[str, ...] | None = ctx.meta.get(_COMMAND)
    if file is not None and file_option is not None:
        raise click.UsageError(f"give either {file} or --file {file_option}, not both", ctx)
    file = file if file is not None else file_option
    _one_source(ctx, file, clone, command)
    how = how_of(options)
    client = connect()
    request = _request(file, clone, command, options) | _read_as(how, file)
    if resume:
        request["resume"] = True
    try:
        if sweep:
            from tarmac.cli.searches import sweep_of

            request["sweep"] = sweep_of(sweep)
            raise IsExperiment("it searches")
        if dry_run:
            _dry_run(client, request, whole=verbose, as_json=as_json)
            return
        if detach:
            _detached(_submit(client, request, idempotency_key), as_json=as_json)
            return
        client.open()
        sys.exit(_followed(client, request, idempotency_key, as_json=as_json))
    except IsExperiment:
        sys.exit(_searched(client, request, idempotency_key, detach, dry_run=dry_run, as_json=as_json))


def _searched(
    client: Client, request: dict[str, Any], key: str | None, detach: bool, *, dry_run: bool, as_json: bool
) -> int:
    """Begin an experiment instead of a run, or with `dry_run` say what it comes to."""
    from tarmac.cli.searches import begin, print_preview

    if dry_run:
        print_preview(client, request, as_json=as_json)
        return 0
    try:
        return begin(client, request, key, detach=detach, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED


def overrides(options: dict[str, Any], command: tuple[str, ...] | None) -> dict[str, Any]:
    """The `overrides` of docs/using/api.md from the options that the user set."""
    overrides: dict[str, Any] = {name: options[name] for name in _PLAIN if options[name] is not None}
    if options["gpus"] is not None:
        overrides["slots"] = options["gpus"]
    if options["code"] is not None:
        overrides["code"] = str(Path(options["code"]).absolute())
    overrides |= {flag: True for flag in ("no_code", "no_container") if options[flag]}
    overrides |= {
        name: list(options[name])
        for name in ("hostnames", "exclude_hostnames", "after", "notify")
        if options[name]
    }
    if options["uneven"]:
        overrides["uneven"] = True
    if (rehearsal := options["rehearse"]) is not None:
        overrides["rehearse"] = rehearsal_of(rehearsal)
    if variables := _variables(options["env_files"], options["variables"]):
        overrides["env"] = variables
    if options["secrets"]:
        overrides["secrets"] = [secret_use(text) for text in options["secrets"]]
    if options["directives"]:
        overrides["slurm"] = dict(map(directive, options["directives"]))
    if options["labels"]:
        overrides["labels"] = dict(options["labels"])
    if options["stop_on_nan"]:
        overrides["stop_on_nan"] = True
    if options["fail_if_busy"]:
        overrides["queueing"] = "fail_if_busy"
    if command is not None:
        overrides["command"] = list(command)
    return overrides


def _variables(files: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables of these files, a later one counting more, and of --env, which counts most."""
    found: dict[str, str] = {}
    if files:
        from tarmac.cli.envfile import read_env_file

        for file in files:
            found |= read_env_file(file)
    return {**found, **dict(pairs)}


def secret_use(text: str) -> str | dict[str, str]:
    """`VARIABLE=NAME` or `NAME`, as an item of `secrets` in a run file."""
    variable, equals, name = text.rpartition("=")
    return {"name": name, "as": "variable", "variable": variable} if equals else name


def directive(text: str) -> tuple[str, str | bool | None]:
    """`NAME=VALUE`, `NAME` for one without a value, `NAME=` to drop one: as in `slurm` of a run file."""
    name, equals, value = text.removeprefix("--").partition("=")
    return name, (value or None) if equals else True


def _one_source(
    ctx: click.Context, file: str | None, clone: str | None, command: tuple[str, ...] | None
) -> None:
    """Exactly one thing to run: a file, a clone, or a command by itself."""
    if command == ():
        raise click.UsageError("there is no command after --", ctx)
    if ctx.params.get("slots") is not None and ctx.params.get("gpus") is not None:
        raise click.UsageError("--gpus says the same as --slots: give one of them", ctx)
    if ctx.params.get("code") is not None and ctx.params.get("no_code"):
        raise click.UsageError("--code and --no-code exclude each other: give one of them", ctx)
    if file is not None and clone is not None:
        raise click.UsageError(f"give either the run file {file} or --clone {clone}, not both", ctx)
    if clone is None and ctx.params.get("resume"):
        raise click.UsageError(
            "--resume goes with --clone RUN; a paused run goes on by: tarmac resume RUN", ctx
        )
    if file is None and clone is None and command is None:
        file = next((name for name in ("run.yaml", "tarmac.yaml") if Path(name).is_file()), None)
        hint = f"; did you mean tarmac run {file}?" if file else ", or a command after --"
        raise click.UsageError(f"what is to be run? Give a run file{hint}", ctx)


def _request(
    file: str | None,
    clone: str | None,
    command: tuple[str, ...] | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """The arguments of the client's `submit` and `dry_run`."""
    if clone is not None:
        return {"clone": clone, "overrides": overrides(options, command)}
    if file is not None:
        text = read_run_file(file)
        changes = overrides(options, command)
    else:
        text = from_command(command or (), directory=Path.cwd(), home=Path.home())
        changes = overrides(options, None)
    return {"source": text.text, "filename": text.filename, "directory": text.directory, "overrides": changes}


def _read_as(how: How, file: str | None) -> dict[str, Any]:
    """The arguments of `submit` about reading the run file."""
    if file is None:
        return {"extras": {"changes": dict(how.changes)}} if how.changes else {}
    directory = Path.cwd() if file == STDIN else Path(file).absolute().parent
    return {"dialect": how.dialect, "extras": how.extras(str(directory))}


def _submit(client: Client, request: dict[str, Any], idempotency_key: str | None) -> api.Run:
    try:
        return client.submit(**request, idempotency_key=idempotency_key)
    except KeyboardInterrupt:
        click.echo("interrupted while submitting; tarmac ls shows whether it was accepted", err=True)
        sys.exit(INTERRUPTED)


def _followed(client: Client, request: dict[str, Any], idempotency_key: str | None, *, as_json: bool) -> int:
    """Submit and follow: the run's own exit code, after its end."""
    from tarmac.cli.following import LogChoice, follow
    from tarmac.cli.views.followview import standard_view

    record = _submit(client, request, idempotency_key)
    if record["array_id"] is not None:
        from tarmac.cli.commands.wait import wait_for_array

        return wait_for_array(client, record, as_json=as_json)
    view = standard_view(as_json=as_json)
    view.submitted(record)
    return follow(client, record["id"], view, LogChoice())


def _detached(record: api.Run, *, as_json: bool) -> None:
    if as_json:
        print_json(record)
        return
    print_warnings(record["warnings"])
    print_text(record["array_id"] or record["id"])


def _dry_run(client: Client, request: dict[str, Any], *, whole: bool, as_json: bool) -> None:
    from tarmac.cli.views.dryrun import plan_text, short_text
    from tarmac.cli.views.terminal import stdout_terminal

    answer = client.dry_run(**request)
    if as_json:
        print_json(answer)
        return
    print_warnings(answer["warnings"])
    terminal = stdout_terminal()
    print_text(plan_text(answer, terminal, inherited=os.environ) if whole else short_text(answer, terminal))
    if answer["run"].get("search"):
        print_text("\nit is one of the trials of a search:")
        _searched(client, request, None, False, dry_run=True, as_json=False)
