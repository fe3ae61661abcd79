"""Options that override values of a file, and their changes. Used by `run` and `experiment create`.

The syntax of `--env-file` is that of dotenv files, without substitution: `$` stands for itself. Errors quote
no line, because such files hold keys and passwords.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from tarmac.cli.options import COUNT, complete_run, pairs_option, repeated, together, variables_option
from tarmac.cli.runfile import read_text, rehearsal_of
from tarmac.model.errors import InvalidInput, Problem

_PLAIN = (
    *("name", "slots", "cluster", "pool", "shard", "mode", "max_rapid_cycles"),
    *("priority", "weight", "time_limit", "retries", "rehearse", "slot_type", "image", "nodes", "array"),
)
_FLAGS = ("no_code", "no_container", "uneven", "stop_on_nan")
_LISTS = ("hostnames", "exclude_hostnames", "after", "notify")
"""Options with the same meaning as a field of a run file: values, truths and lists."""

override_options = together(
    click.option("--name", metavar="NAME", help="Name of the run."),
    click.option("--slots", type=COUNT, metavar="N", help="N slots in all, on as few nodes as possible."),
    click.option("--gpus", type=COUNT, metavar="N", help="The same as --slots."),
    click.option("--gpu-type", "--slot-type", "slot_type", metavar="TYPE", help="Slots of this type only."),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Split the slots over N nodes."),
    click.option("--uneven", is_flag=True, help="Split the slots unequally where no equal split fits."),
    click.option("--cluster", metavar="NAME", help="Run on this cluster."),
    click.option("--pool", metavar="NAME", help="Run in this pool."),
    click.option("--shard", metavar="NAME", help="Run in this shard of the cluster."),
    repeated("--hostname", "hostnames", help="Only on this machine; may be repeated."),
    repeated("--exclude-hostname", "exclude_hostnames", help="Not on this machine; may be repeated."),
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
    click.option(
        "--stop-on-nan", is_flag=True, help="Fail once a worker reports a metric that is not finite."
    ),
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
    click.option("--fail-if-busy", is_flag=True, help="Fail at once instead of waiting for free slots."),
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
    overrides: dict[str, Any] = {name: options[name] for name in _PLAIN if options[name] is not None}
    overrides |= {flag: True for flag in _FLAGS if options[flag]}
    overrides |= {name: list(options[name]) for name in _LISTS if options[name]}
    overrides |= {
        field: convert(options[name])
        for name, (field, convert) in _CONVERTED.items()
        if options[name] not in (None, ())
    }
    variables: dict[str, str] = {}
    for file in options["env_files"]:
        variables |= read_env_file(file)
    if variables := variables | dict(options["variables"]):  # --env overrides all files
        overrides["env"] = variables
    if options["fail_if_busy"]:
        overrides["queueing"] = "fail_if_busy"
    if command is not None:
        overrides["command"] = list(command)
    return overrides


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
    "code": ("code", lambda directory: str(Path(directory).absolute())),
    "rehearse": ("rehearse", rehearsal_of),
    "secrets": ("secrets", lambda uses: list(map(secret_use, uses))),
    "directives": ("slurm", lambda texts: dict(map(directive, texts))),
    "labels": ("labels", dict),
}
"""Options with another form than the field that they set, and how they are converted."""


def _refuse_both(options: dict[str, Any]) -> None:
    if options["slots"] is not None and options["gpus"] is not None:
        raise click.UsageError("--gpus says the same as --slots: give one of them")
    if options["code"] is not None and options["no_code"]:
        raise click.UsageError("--code and --no-code exclude each other: give one of them")


_START = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[^\s=#'\"]+)[ \t]*(?P<equals>=?)[ \t]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_COMMENT = re.compile(r"\s#")
_REST = re.compile(r"[ \t]*(?:#.*)?(?=\n|\Z)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(file: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables in a file; a name alone takes its value from `environment`, by default this process's.

    Raises InvalidInput with all problems, each with file and line.
    """
    text = read_text(file, what="a file of variables").text.replace("\r\n", "\n")
    return _Parser(file, text, os.environ if environment is None else environment).variables()


class _Parser:
    """Reads assignments one after the other, and collects problems."""

    def __init__(self, file: str, text: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._text = text
        self._environment = environment
        self._problems: list[Problem] = []

    def variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        at = 0
        while at < len(self._text):
            end = self._line_end(at)
            line = self._text[at:end].strip()
            if not line or line.startswith("#"):
                at = end + 1
                continue
            at = self._assignment(at, end, found)
        if self._problems:
            raise InvalidInput(self._problems)
        return found

    def _assignment(self, at: int, end: int, found: dict[str, str]) -> int:
        """Read the assignment at `at` into `found`; return the start of the next line."""
        start = _START.match(self._text, at, end)
        if start is None or not _NAME.fullmatch(start["name"]):
            self._refuse(at, "this is not of the form NAME=VALUE", "a NAME is letters, digits and _")
            return end + 1
        name = start["name"]
        if not start["equals"]:
            if not _REST.match(self._text, start.end()):
                self._refuse(at, f"there is no = after {name}", "write NAME=VALUE")
            elif name not in self._environment:
                self._refuse(at, f"{name} is not set here, so there is no value to copy", f"{name}=VALUE")
            else:
                found[name] = self._environment[name]
            return end + 1
        mark = self._text[start.end() : start.end() + 1]
        if mark not in ("'", '"'):
            value = _COMMENT.split(self._text[start.end() : end], maxsplit=1)[0].rstrip()
            found[name] = "" if value.startswith("#") else value
            return end + 1
        return self._quoted(name, start.end(), mark, found)

    def _quoted(self, name: str, at: int, mark: str, found: dict[str, str]) -> int:
        quoted = (_SINGLE if mark == "'" else _DOUBLE).match(self._text, at)
        if quoted is None:
            self._refuse(
                at, f"the value of {name} begins with {mark} and does not end", f"close it with {mark}"
            )
            return len(self._text)
        if not _REST.match(self._text, quoted.end()):
            self._refuse(
                at, f"there is more after the quoted value of {name}", "put all of it into the quotes"
            )
        value = quoted[1]
        if mark == '"':
            value = re.sub(r"\\(.)", lambda pair: _ESCAPES.get(pair[1], pair[1]), value, flags=re.DOTALL)
        found[name] = value
        return self._line_end(quoted.end()) + 1

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _refuse(self, at: int, message: str, hint: str) -> None:
        line = self._text.count("\n", 0, at) + 1
        self._problems.append(Problem(message=f"{self._file}:{line}: {message}", hint=hint))
