"""Options and arguments that several commands share, and the types of their values. Used by the commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tarmac.cli.views.amounts import parse_duration

if TYPE_CHECKING:
    from datetime import tzinfo

    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

COUNT = click.IntRange(min=0)
"""A number of things, or the number of one."""


def key_value(text: str) -> tuple[str, str]:
    """`K=V`, as a pair."""
    key, equals, content = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not of the form K=V")
    return key, content


def variable(text: str) -> tuple[str, str]:
    """`K=V`; `K` alone copies the value from this environment."""
    if "=" in text or not text:
        return key_value(text)
    if text not in os.environ:
        raise click.BadParameter(
            f"{text} is not set here, so there is no value to take over; write {text}=VALUE"
        )
    return text, os.environ[text]


def duration(text: str) -> float:
    """`90s`, `10m`, `1h30m`, `2d`, or a number of seconds, in seconds."""
    seconds = parse_duration(str(text))
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 10m, 2h or 1d")
    return seconds


def local_time(text: str, others: str = "", zone: tzinfo | None = None) -> float:
    """A date, or a date with a time of the zone (None: local), as a Unix time.

    `others`: examples of other allowed forms.
    """
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is no time; write {others}2026-11-01 or 2026-11-01T08:00"
        raise click.BadParameter(message) from None


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """These options and arguments as one decorator, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def flag(*names: str, help: str, **more: Any) -> Callable[[F], F]:
    """An option without a value."""
    return click.option(*names, is_flag=True, help=help, **more)


def repeated(*names: str, help: str, metavar: str = "NAME", **more: Any) -> Callable[[F], F]:
    """An option that may be repeated."""
    return click.option(*names, multiple=True, metavar=metavar, help=help, **more)


def pairs_option(*names: str, help: str, metavar: str = "K=V") -> Callable[[F], F]:
    """An option of `K=V` that may be repeated."""
    return repeated(*names, help=help, metavar=metavar, type=key_value)


variables_option = repeated(
    *("--env", "-e", "variables"),
    metavar="K=V",
    type=variable,
    help="Set a variable; K alone copies the value from your shell. May be repeated.",
)


def _completion(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Names for shell completion: from a running server; silent otherwise."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tarmac.cli.completing import candidates

        return candidates(kind, incomplete)

    return complete


complete_run, complete_node, complete_cluster = map(_completion, ("run", "node", "cluster"))

run_argument = click.argument("run", metavar="RUN", shell_complete=complete_run)
runs_argument = click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)


def _plottable(_ctx: click.Context, _param: click.Parameter, file: str | None) -> str | None:
    if file:
        from tarmac.cli.views.plotting import require_plotting

        require_plotting(file, "without a file, write --plot last")
    return file


def plot_option(help: str) -> Callable[[F], F]:
    """The option --plot, with or without a file, which is checked before any request."""
    form: dict[str, Any] = {"is_flag": False, "flag_value": "", "metavar": "[FILE]", "callback": _plottable}
    return click.option("--plot", "plot_to", help=help, **form)


def tail_option(lines: int, help: str) -> Callable[[F], F]:
    """The option --tail, with this number of lines by default."""
    return click.option("--tail", type=COUNT, default=lines, show_default=True, metavar="N", help=help)
