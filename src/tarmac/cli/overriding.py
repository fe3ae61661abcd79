"""Options that override values of a file, and their changes. Used by `run` and `experiment create`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tarmac.cli.envfile import read_env_file
from tarmac.cli.options import KeyValue, complete_run
from tarmac.cli.runfile import rehearsal_of

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = (
    *("name", "slots", "cluster", "pool", "shard", "mode", "max_rapid_cycles"),
    *("priority", "weight", "time_limit", "retries", "rehearse", "slot_type", "image", "nodes", "array"),
)
"""Options with the same meaning as a field of a run file."""

_OPTIONS = (
    click.option("--name", metavar="NAME", help="Name of the run."),
    click.option(
        "--slots",
        type=click.IntRange(min=0),
        metavar="N",
        help="N slots in all, on as few nodes as possible.",
    ),
    click.option("--gpus", type=click.IntRange(min=0), metavar="N", help="The same as --slots."),
    click.option("--gpu-type", "--slot-type", "slot_type", metavar="TYPE", help="Slots of this type only."),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Split the slots over N nodes."),
    click.option("--uneven", is_flag=True, help="Split the slots unequally where no equal split fits."),
    click.option("--cluster", metavar="NAME", help="Run on this cluster."),
    click.option("--pool", metavar="NAME", help="Run in this pool."),
    click.option("--shard", metavar="NAME", help="Run in this shard of the cluster."),
    click.option(
        "--hostname",
        "hostnames",
        multiple=True,
        metavar="NAME",
        help="Only on this machine; may be repeated.",
    ),
    click.option(
        "--exclude-hostname",
        "exclude_hostnames",
        multiple=True,
        metavar="NAME",
        help="Not on this machine; may be repeated.",
    ),
    click.option("--image", metavar="IMAGE", help="Run in this container image."),
    click.option(
        "--no-container", is_flag=True, help="Run on the node itself, whatever image the file names."
    ),
    click.option(
        "--code",
        metavar="DIR",
        type=click.Path(),
        help="Bring this directory as code, whatever the file says.",
    ),
    click.option("--no-code", is_flag=True, help="Bring no code, whatever the file says."),
    click.option(
        "--env-file",
        "env_files",
        multiple=True,
        metavar="FILE",
        help="Set the variables in this file, lines NAME=VALUE; --env counts more. May be repeated.",
    ),
    click.option(
        "--env",
        "-e",
        "variables",
        multiple=True,
        type=KeyValue(inherit=True),
        help="Set a variable; K alone copies the value from your shell. May be repeated.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="VARIABLE=NAME",
        help="Give the secret NAME as a variable; NAME alone as it was set. May be repeated.",
    ),
    click.option(
        "--slurm",
        "directives",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Add a directive to its job on a Slurm; NAME= drops one. May be repeated.",
    ),
    click.option(
        "--label", "-l", "labels", multiple=True, type=KeyValue(), help="Add a label; may be repeated."
    ),
    click.option("--mode", metavar="MODE", help="batch, cycle (short turns, first), interruptible or burst."),
    click.option("--max-rapid-cycles", type=int, metavar="N", help="Turns of a cycle run, 1 to 5."),
    click.option(
        "--priority", metavar="N", help="A bigger number is sooner; or lowest, low, medium, high, highest."
    ),
    click.option("--weight", type=float, metavar="W", help="Share of a fair-share pool, 1 by default."),
    click.option("--time-limit", metavar="DURATION", help="Stop it after this time, as 90s, 10m, 2h or 1d."),
    click.option(
        "--retries", type=click.IntRange(min=0), metavar="N", help="Start it again up to N times if it fails."
    ),
    click.option(
        "--stop-on-nan", is_flag=True, help="Fail once a worker reports a metric that is not finite."
    ),
    click.option(
        "--after",
        multiple=True,
        metavar="RUN[:ended]",
        shell_complete=complete_run,
        help="Wait until this run has completed (:ended: until it has ended, however); may be repeated.",
    ),
    click.option(
        "--array",
        metavar="0-99%8",
        help="Submit equal runs that differ in TARMAC_ARRAY_INDEX: indices 0 to 99, at most 8 at once.",
    ),
    click.option(
        "--notify",
        multiple=True,
        metavar="ADDRESS",
        help="Tell this address of mail, or this URL, when the run has ended; may be repeated.",
    ),
    click.option("--fail-if-busy", is_flag=True, help="Fail at once instead of waiting for free slots."),
    click.option(
        "--rehearse",
        metavar="NODESxSLOTS|FILE",
        help="On a cluster made up on this machine: 2x1 is two nodes of one slot; FILE describes one.",
    ),
)


def override_options(function: F) -> F:
    """Add the options that `overrides` reads."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def overrides(options: dict[str, Any], command: tuple[str, ...] | None) -> dict[str, Any]:
    """The `overrides` of docs/using/api.md from the options that the user set."""
    _refuse_both(options)
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
    """The variables of these files and of --env; later files override earlier ones, --env overrides all."""
    found: dict[str, str] = {}
    if files:
        for file in files:
            found |= read_env_file(file)
    return {**found, **dict(pairs)}


def secret_use(text: str) -> str | dict[str, str]:
    """`VARIABLE=NAME` or `NAME`, as an item of `secrets` in a run file."""
    variable, equals, name = text.rpartition("=")
    return {"name": name, "as": "variable", "variable": variable} if equals else name


def directive(text: str) -> tuple[str, str | bool | None]:
    """`NAME=VALUE`, `NAME` for one without a value, `NAME=` to remove one: as in `slurm` of a run file."""
    name, equals, value = text.removeprefix("--").partition("=")
    return name, (value or None) if equals else True


def _refuse_both(options: dict[str, Any]) -> None:
    if options["slots"] is not None and options["gpus"] is not None:
        raise click.UsageError("--gpus says the same as --slots: give one of them")
    if options["code"] is not None and options["no_code"]:
        raise click.UsageError("--code and --no-code exclude each other: give one of them")
