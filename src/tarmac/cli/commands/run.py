"""`tarmac run`: submit a run and follow it to its end.

Modules for following or a dry run are imported only when needed, so `tarmac run --detach` imports neither.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_text, wants_json
from tarmac.cli.lazy import AnsweringCommand, command
from tarmac.cli.options import complete_run, flag, pairs_option
from tarmac.cli.overriding import override_options, overrides
from tarmac.cli.runfile import from_command, how_of, read_run_file, reading_options
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.model.errors import IsExperiment

if TYPE_CHECKING:
    from tarmac.client import Client

_COMMAND = "tarmac.command"


class RunCommand(AnsweringCommand):
    """`run`, where everything after `--` is the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_COMMAND] = args[:at], tuple(args[at + 1 :])
        rest = super().parse_args(ctx, args)
        if rest:
            import shlex

            raise click.UsageError(f"write a command after --: -- {shlex.join(rest)}", ctx)
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's
        return ["[OPTIONS]", "[FILE]", "[-- COMMAND...]"]


@command(cls=RunCommand, context_settings={"allow_extra_args": True})
@click.argument("file", required=False, type=click.Path())
@click.option("--file", "-f", "file_option", metavar="FILE", type=click.Path(), help="The same as FILE.")
@override_options
@reading_options
@click.option(
    "--clone", metavar="RUN", shell_complete=complete_run, help="Submit the same as this run again."
)
@flag("--resume", help="With --clone: begin from the last checkpoint of that run, with its code.")
@flag("--dry-run", help="Show placement, commands and variables; start and keep nothing.")
@flag("--verbose", help="With --dry-run: every variable, and what the engine is sent.")
@pairs_option(
    "--sweep",
    help="Try these values of a parameter, as lr=1e-3,1e-4 or seed=0..9: an experiment of all combinations. "
    "May be repeated.",
)
@flag("--detach", "-d", help="Do not follow it: print its id and return.")
@click.option("--idempotency-key", metavar="KEY", help="Submitting twice with the same key is one run.")
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
        raise click.UsageError(f"give either {file} or --file {file_option}, not both")
    file = file if file is not None else file_option
    _one_source(file, clone, command, resume=resume)
    client = connect()
    request = _request(file, clone, command, options)
    if resume:
        request["resume"] = True
    try:
        if sweep:
            from tarmac.cli.commands.search import sweep_of

            request["sweep"] = sweep_of(sweep)
            raise IsExperiment("it searches")
        if dry_run:
            _dry_run(client, request, whole=verbose)
            return
        if detach:
            record = _submit(client, request, idempotency_key)
            shown = record.array_id or record.id
            answer(record, shown, warnings=record.warnings)
            return
        client.open()
        sys.exit(_followed(client, request, idempotency_key))
    except IsExperiment:
        sys.exit(_searched(client, request, idempotency_key, detach, dry_run=dry_run))


def _searched(
    client: Client, request: dict[str, Any], key: str | None, detach: bool, *, dry_run: bool
) -> int:
    """Begin an experiment instead of a run, or with `dry_run` print its preview."""
    from tarmac.cli.commands.search import begin, print_preview

    if dry_run:
        print_preview(client, request)
        return 0
    try:
        return begin(client, request, key, detach=detach)
    except KeyboardInterrupt:
        return INTERRUPTED


def _one_source(
    file: str | None, clone: str | None, command: tuple[str, ...] | None, *, resume: bool
) -> None:
    """Check that exactly one source is given: a file, a clone, or a command."""
    if command == ():
        raise click.UsageError("there is no command after --")
    if file is not None and clone is not None:
        raise click.UsageError(f"give either the run file {file} or --clone {clone}, not both")
    if clone is None and resume:
        raise click.UsageError("--resume goes with --clone RUN; a paused run goes on by: tarmac resume RUN")
    if file is None and clone is None and command is None:
        file = next((name for name in ("run.yaml", "tarmac.yaml") if os.path.isfile(name)), None)
        hint = f"; did you mean tarmac run {file}?" if file else ", or a command after --"
        raise click.UsageError(f"what is to be run? Give a run file{hint}")


def _request(
    file: str | None, clone: str | None, command: tuple[str, ...] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of the client's `submit` and `dry_run`."""
    how = how_of(options)
    if file is not None:
        text, changes = read_run_file(file), overrides(options, command)
        read_as = {"dialect": how.dialect, "extras": how.extras(text.directory)}
        return {**text.request(), "overrides": changes, **read_as}
    extras = {"extras": {"changes": dict(how.changes)}} if how.changes else {}
    if clone is not None:
        return {"clone": clone, "overrides": overrides(options, command), **extras}
    text = from_command(command or (), directory=os.getcwd(), home=os.path.expanduser("~"))
    return {**text.request(), "overrides": overrides(options, None), **extras}


def _submit(client: Client, request: dict[str, Any], idempotency_key: str | None) -> api.Run:
    try:
        return client.submit(**request, idempotency_key=idempotency_key)
    except KeyboardInterrupt:
        click.echo("interrupted while submitting; tarmac ls shows whether it was accepted", err=True)
        sys.exit(INTERRUPTED)


def _followed(client: Client, request: dict[str, Any], idempotency_key: str | None) -> int:
    """Submit the run and follow it; return its exit code."""
    from tarmac.cli.following import follow_submitted

    record = _submit(client, request, idempotency_key)
    if record.array_id is not None:
        from tarmac.cli.commands.acts import wait_for_array

        return wait_for_array(client, record)
    return follow_submitted(client, record)


def _dry_run(client: Client, request: dict[str, Any], *, whole: bool) -> None:
    from tarmac.cli.views.dryrun import plan_text, short_text
    from tarmac.cli.views.terminal import stdout_terminal

    found, terminal = client.dry_run(**request), stdout_terminal()
    text = plan_text(found, terminal, inherited=os.environ) if whole else short_text(found, terminal)
    answer(found, text, warnings=found.warnings)
    if found.run.get("search") and not wants_json():
        print_text("\nit is one of the trials of a search:")
        _searched(client, request, None, False, dry_run=True)
