"""Reads `hooks`: commands before and after the workers. Called by the reader."""

from __future__ import annotations

from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.native.commands import read_command
from tarmac.dialects.section import Fields, Value
from tarmac.model.spec import Command, Hooks

HOOKS = Fields(
    known=frozenset({"before_login", "before", "after", "after_login"}),
    synonyms={"pre_run": "before", "post_run": "after", "pre": "before", "post": "after"},
)


def read_hooks(value: Value | None, warnings: list[str]) -> Hooks:
    """The commands of each hook."""
    section = value.section(HOOKS) if value is not None else None
    if section is None:
        return Hooks()

    def commands(name: str) -> tuple[Command, ...]:
        hook = section.get(name)
        return () if hook is None else _commands(hook, warnings)

    return Hooks(
        before_login=commands("before_login"),
        before=commands("before"),
        after=commands("after"),
        after_login=commands("after_login"),
    )


def _commands(value: Value, warnings: list[str]) -> tuple[Command, ...]:
    """One script, or a list of commands."""
    if isinstance(value.node, Scalar) or not isinstance(value.node, Items):
        command = read_command(value, warnings)
        return () if command is None else (command,)
    found = [read_command(item, warnings) for item in value.items("a script, or a list of commands,")]
    return tuple(command for command in found if command is not None)
