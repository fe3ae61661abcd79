"""A click group that imports a command only when it is called. Used by `main` and groups of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.catalogue import COMMANDS, SECTIONS, SYNONYMS
from tarmac.model.errors import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

JSON = "tarmac.json"
"""Where the context of a command records that the answer is JSON."""


def _note_form(context: click.Context, _param: click.Parameter, chosen: bool) -> None:
    context.meta[JSON] = chosen


_JSON_OPTION = click.Option(
    ["--json"], is_flag=True, help="Print JSON instead of text.", expose_value=False, callback=_note_form
)


def text_option(*names: str, text: Callable[[click.Context], str], help: str) -> click.Option:
    """An option that prints a text in place of the answer.

    click's own options of that kind look for translations of their help, for a fiftieth of a short command.
    """

    def show(context: click.Context, _param: click.Parameter, chosen: bool) -> None:
        if chosen and not context.resilient_parsing:
            click.echo(text(context), color=context.color)
            context.exit()

    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help)


_HELP_OPTION = text_option("-h", "--help", text=click.Context.get_help, help="Show this message and exit.")


class AnsweringCommand(click.Command):
    """A command whose answer is a text, or JSON with its last option."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _HELP_OPTION if ctx.help_option_names else None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(_JSON_OPTION)


command = partial(click.command, cls=AnsweringCommand)


class Subcommands(click.Group):
    """A group of commands in one module (`nodes`, `server`), with the nearest name for a mistyped one."""

    command_class = AnsweringCommand
    get_help_option = AnsweringCommand.get_help_option
    synonyms: Mapping[str, str] = {}
    """Words of other programs, each with a command of ours."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.invoke_without_command:
            self.params.append(_JSON_OPTION)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        if ours := self.synonyms.get(name.lower()):
            hint = f"; did you mean `tarmac {ours}`?"
        raise click.UsageError(f"there is no command {name!r}{hint}", ctx)


class LazyGroup(Subcommands):
    """The group of all commands: listing and completing them imports none."""

    synonyms = SYNONYMS

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 click's
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(entry.module), cmd_name.replace("-", "_"))
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        longest = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), text) for name, _, text in commands])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]


def calls_subcommand(ctx: click.Context) -> bool:
    """Whether a command follows that of a group; raises UsageError if options precede it."""
    if ctx.invoked_subcommand is not None and (ctx.meta.get(JSON) or any(ctx.params.values())):
        raise click.UsageError(f"write options after {ctx.invoked_subcommand}", ctx)
    return ctx.invoked_subcommand is not None
