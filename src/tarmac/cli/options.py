"""Options and arguments that several commands share, and the types of their values. Used by the commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tarmac.cli.views.amounts import parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


class KeyValue(click.ParamType):  # type: ignore[type-arg]
    """`K=V`; with `inherit`, `K` alone copies the value from this environment."""

    name = "K=V"

    def __init__(self, *, inherit: bool = False) -> None:
        self._inherit = inherit

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        key, equals, content = str(value).partition("=")
        if not key or (not equals and not self._inherit):
            self.fail(f"{value!r} is not of the form K=V", param, ctx)
        if equals:
            return key, content
        if key not in os.environ:
            self.fail(
                f"{key} is not set here, so there is no value to take over; write {key}=VALUE", param, ctx
            )
        return key, os.environ[key]


class Duration(click.ParamType):  # type: ignore[type-arg]
    """`90s`, `10m`, `1h30m`, `2d`, or a number of seconds, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 90s, 10m, 2h or 1d", param, ctx)
        return seconds


def complete_run(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names and ids of runs for shell completion: from a running server; silent otherwise."""
    from click.shell_completion import CompletionItem

    from tarmac.cli.completing import run_candidates

    return [CompletionItem(value, help=text) for value, text in run_candidates(incomplete)]


def complete_node(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of nodes for shell completion, in the same way."""
    from click.shell_completion import CompletionItem

    from tarmac.cli.completing import node_candidates

    return [CompletionItem(value, help=text) for value, text in node_candidates(incomplete)]


def complete_cluster(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of clusters for shell completion, in the same way."""
    from click.shell_completion import CompletionItem

    from tarmac.cli.completing import cluster_candidates

    return [CompletionItem(value, help=text) for value, text in cluster_candidates(incomplete)]


def run_argument(function: F) -> F:
    """RUN: one run."""
    return click.argument("run", metavar="RUN", shell_complete=complete_run)(function)


def runs_argument(function: F) -> F:
    """RUN...: one run or several."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)(
        function
    )


def json_option(function: F) -> F:
    """The option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)
