"""Options that override values of a file, and their changes. Used by `run`, `experiment create` and `shell`.

The syntax of `--env-file` is that of dotenv files, without substitution: `$` stands for itself. Errors quote
no line, because such files hold keys and passwords.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from tarmac.cli.options import COUNT, complete_run, flag, pairs_option, repeated, together, variables_option
from tarmac.cli.runfile import absolute, read_text, rehearsal_of
from tarmac.model.errors import InvalidInput, Problem

override_options = together(
    click.option("--name", metavar="NAME", help="Name of the run."),
    click.option("--slots", type=COUNT, metavar="N", help="N slots in all, on as few nodes as possible."),
    click.option("--gpus", type=COUNT, metavar="N", help="The same as --slots."),
    click.option("--gpu-type", "--slot-type", "slot_type", metavar="TYPE", help="Slots of this type only."),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Split the slots over N nodes."),
    flag("--uneven", help="Split the slots unequally where no equal split fits."),
    click.option("--cluster", metavar="NAME", help="Run on this cluster."),
    click.option("--pool", metavar="NAME", help="Run in this pool."),
    click.option("--shard", metavar="NAME", help="Run in this shard of the cluster."),
    repeated("--hostname", "hostnames", help="Only on this machine; may be repeated."),
    repeated("--exclude-hostname", "exclude_hostnames", help="Not on this machine; may be repeated."),
    click.option("--image", metavar="IMAGE", help="Run in this container image."),
    flag("--no-container", help="Run on the node itself, whatever image the file names."),
    click.option(
        "--code",
        metavar="DIR",
        type=click.Path(),
        help="Bring this directory as code, whatever the file says.",
    ),
    flag("--no-code", help="Bring no code, whatever the file says."),
    repeated(
        "--env-file",
        "env_files",
        metavar="FILE",
        help="Set the variables in this file, lines NAME=VALUE; --env counts more. May be repeated.",
    ),
    variables_option,
    repeated(
        "--secret",
        "secrets",
        metavar="VARIABLE=NAME",
        help="Give the secret NAME as a variable; NAME alone as it was set. May be repeated.",
    ),
    repeated(
        "--slurm",
        "directives",
        metavar="NAME[=VALUE]",
        help="Add a directive to its job on a Slurm; NAME= drops one. May be repeated.",
    ),
    pairs_option("--label", "-l", "labels", help="Add a label; may be repeated."),
    click.option("--mode", metavar="MODE", help="batch, cycle (short turns, first), interruptible or burst."),
    click.option("--max-rapid-cycles", type=int, metavar="N", help="Turns of a cycle run, 1 to 5."),
    click.option(
        "--priority", metavar="N", help="A bigger number is sooner; or lowest, low, medium, high, highest."
    ),
    click.option("--weight", type=float, metavar="W", help="Share of a fair-share pool, 1 by default."),
    click.option("--time-limit", metavar="DURATION", help="Stop it after this time, as 90s, 10m, 2h or 1d."),
    click.option("--retries", type=COUNT, metavar="N", help="Start it again up to N times if it fails."),
    flag("--stop-on-nan", help="Fail once a worker reports a metric that is not finite."),
    repeated(
        "--after",
        metavar="RUN[:ended]",
        shell_complete=complete_run,
        help="Wait until this run has completed (:ended: until it has ended, however); may be repeated.",
    ),
    click.option(
        "--array",
        metavar="0-99%8",
        help="Submit equal runs that differ in TARMAC_ARRAY_INDEX: indices 0 to 99, at most 8 at once.",
    ),
    repeated(
        "--notify",
        metavar="ADDRESS",
        help="Tell this address of mail, or this URL, when the run has ended; may be repeated.",
    ),
    flag("--fail-if-busy", help="Fail at once instead of waiting for free slots."),
    click.option(
        "--rehearse",
        metavar="NODESxSLOTS|FILE",
        help="On a cluster made up on this machine: 2x1 is two nodes of one slot; FILE describes one.",
    ),
)
"""The options that `overrides` reads."""


def overrides(options: dict[str, Any], command: tuple[str, ...] | None) -> dict[str, Any]:
    """The `overrides` of docs/using/api.md from the options that the user set."""
    _refuse_both(options)
    given = {name: value for name, value in options.items() if value not in (None, ()) and value is not False}
    variables: dict[str, str] = {}
    for file in given.pop("env_files", ()):
        variables |= read_env_file(file)
    variables |= given.pop("variables", ())  # --env overrides all files
    found: dict[str, Any] = {"env": variables} if variables else {}
    for name, value in given.items():
        field, convert = _CONVERTED.get(name, (name, None))
        found[field] = convert(value) if convert is not None else value
    return found if command is None else {**found, "command": list(command)}


def secret_use(text: str) -> str | dict[str, str]:
    """`VARIABLE=NAME` or `NAME`, as an item of `secrets` in a run file."""
    variable, equals, name = text.rpartition("=")
    return {"name": name, "as": "variable", "variable": variable} if equals else name


def directive(text: str) -> tuple[str, str | bool | None]:
    """`NAME=VALUE`, `NAME` for one without a value, `NAME=` to remove one: as in `slurm` of a run file."""
    name, equals, value = text.removeprefix("--").partition("=")
    return name, (value or None) if equals else True


_CONVERTED: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "gpus": ("slots", int),
    "code": ("code", absolute),
    "rehearse": ("rehearse", rehearsal_of),
    "secrets": ("secrets", lambda uses: list(map(secret_use, uses))),
    "directives": ("slurm", lambda texts: dict(map(directive, texts))),
    "labels": ("labels", dict),
    "fail_if_busy": ("queueing", lambda _: "fail_if_busy"),
}
"""Options with another form than the field that they set, and how they are converted."""


def _refuse_both(options: dict[str, Any]) -> None:
    if options["slots"] is not None and options.get("gpus") is not None:
        raise click.UsageError("--gpus says the same as --slots: give one of them")
    if options.get("code") is not None and options["no_code"]:
        raise click.UsageError("--code and --no-code exclude each other: give one of them")


_START = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[^\s=#'\"]+)[ \t]*(?P<equals>=?)[ \t]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_COMMENT = re.compile(r"\s#")
_REST = re.compile(r"[ \t]*(?:#.*)?(?=\n|\Z)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Misfit(Exception):
    """An assignment that cannot be read: a message, a hint, and the end of its last line."""


def read_env_file(file: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables in a file; a name alone takes its value from `environment`, by default this process's.

    Raises InvalidInput with all problems, each with file and line.
    """
    text = read_text(file, what="a file of variables").text.replace("\r\n", "\n")
    known = os.environ if environment is None else environment
    found: dict[str, str] = {}
    problems: list[Problem] = []
    at = 0
    while at < len(text):
        end = _line_end(text, at)
        if text[at:end].strip() and not text[at:end].lstrip().startswith("#"):
            try:
                name, value, end = _assignment(text, at, end, known)
                found[name] = value
            except _Misfit as misfit:
                message, hint, end = misfit.args
                line = text.count("\n", 0, at) + 1
                problems.append(Problem(message=f"{file}:{line}: {message}", hint=hint))
        at = end + 1
    if problems:
        raise InvalidInput(problems)
    return found


def _assignment(text: str, at: int, end: int, environment: Mapping[str, str]) -> tuple[str, str, int]:
    """The name and the value that are assigned at `at`, and the end of the last line; raises _Misfit."""
    start = _START.match(text, at, end)
    if start is None or not _NAME.fullmatch(start["name"]):
        raise _Misfit("this is not of the form NAME=VALUE", "a NAME is letters, digits and _", end)
    name, begin = start["name"], start.end()
    if not start["equals"]:
        if not _REST.match(text, begin):
            raise _Misfit(f"there is no = after {name}", "write NAME=VALUE", end)
        if name not in environment:
            raise _Misfit(f"{name} is not set here, so there is no value to copy", f"{name}=VALUE", end)
        return name, environment[name], end
    mark = text[begin : begin + 1]
    if mark not in ("'", '"'):
        value = _COMMENT.split(text[begin:end], maxsplit=1)[0].rstrip()
        return name, "" if value.startswith("#") else value, end
    quoted = (_SINGLE if mark == "'" else _DOUBLE).match(text, begin)
    if quoted is None:
        message = f"the value of {name} begins with {mark} and does not end"
        raise _Misfit(message, f"close it with {mark}", len(text))
    end = _line_end(text, quoted.end())
    if not _REST.match(text, quoted.end()):
        raise _Misfit(f"there is more after the quoted value of {name}", "put all of it into the quotes", end)
    if mark == "'":
        return name, quoted[1], end
    value = re.sub(r"\\(.)", lambda pair: _ESCAPES.get(pair[1], pair[1]), quoted[1], flags=re.DOTALL)
    return name, value, end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
