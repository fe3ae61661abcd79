"""Reads commands: a bash script whose lines are kept, or a list taken as argv. For roles, setup, hooks."""

from __future__ import annotations

import posixpath
import re

from tarmac.dialects.kinds import text
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.section import Fields, Value, words_for
from tarmac.model.spec import Command, Hooks

COMMAND = "a script, or a list of a program and its arguments,"


def read_command(value: Value) -> Command | None:
    """The command; None, with a problem reported, if it is invalid."""
    if isinstance(value.node, Scalar):
        return _script(value)
    if not isinstance(value.node, Items) or not value.node.items:
        value.expected(COMMAND)
        return None
    argv = tuple(_argument(item) for item in value.items(COMMAND))
    if not argv[0]:
        value.refuse("the name of the program is empty")
    for argument in argv if not _is_shell(argv) else ():
        if found := _EXPANSION.search(argument):
            value.warn(
                f"no shell reads a command given as a list: {found[0]!r} reaches the program "
                "as it is; write the command as one text to have it expanded"
            )
            break
    return Command(argv=argv)


def warn_of_fixed_numbers(value: Value) -> None:
    """Warn if a command that is placed by its slots fixes the number of nodes or processes itself."""
    words = value.node.items if isinstance(value.node, Items) else (value.node,)
    for word in words:
        found = _FIXED.search(word.text) if isinstance(word, Scalar) else None
        if found is not None:
            variable = "$NNODES" if "nnodes" in found[0] else "$N_PROC"
            value.warn(f"{found[0]!r} is fixed; {variable} follows what the run is given")


def refuse_launcher_programs(value: Value, launcher: str) -> None:
    """Refuse a command that starts the processes of a node itself: it would run once for each of them."""
    words = value.node.items if isinstance(value.node, Items) else (value.node,)
    line = " ".join(word.text for word in words if isinstance(word, Scalar))
    found = _PROGRAM.search(line)
    if found is not None:
        value.refuse(
            f"launcher: {launcher} starts this command once for each slot, and {found[1]!r} in it would each "
            "time start the processes of a whole node",
            f"take {found[1]!r} out of the command, or 'launcher' out of the file",
        )


_PROGRAM = re.compile(
    r"(?:^|[\s;&|(/])(torchrun|accelerate launch|deepspeed|horovodrun|mpirun|mpiexec"
    r"|python3? -m torch\.distributed\.(?:run|launch)|python3? -m determined\.launch\.\w+)(?:\s|$)",
    re.ASCII,
)
_FIXED = re.compile(r"--(nnodes|nproc[-_]per[-_]node)[= ][0-9]+", re.ASCII)
_EXPANSION = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)


def _is_shell(argv: tuple[str, ...]) -> bool:
    """Whether the list passes a text to a shell, which expands it."""
    return (
        len(argv) > 2
        and posixpath.basename(argv[0]) in _SHELLS
        and _COMMAND_FLAG.fullmatch(argv[1]) is not None
    )


_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_COMMAND_FLAG = re.compile(r"-[a-z]*c", re.ASCII)


def _script(value: Value) -> Command | None:
    script = value.read(text(COMMAND), None)
    if script is None:
        return None
    if not script.strip():
        value.refuse("the command is empty")
        return None
    return Command(script=script)


def _argument(value: Value) -> str:
    if isinstance(value.node, Scalar) and value.node.empty:
        value.refuse("an argument is missing", "write '' for an empty one")
        return ""
    return value.read(text("a text or number"), "")


HOOKS = Fields(
    known=frozenset({"before_login", "before", "after", "after_login"}),
    synonyms=words_for(before="pre_run pre", after="post_run post"),
)


def read_hooks(value: Value | None) -> Hooks:
    """The commands of each hook."""
    section = value.section(HOOKS) if value is not None else None
    if section is None:
        return Hooks()

    def commands(name: str) -> tuple[Command, ...]:
        hook = section.get(name)
        return () if hook is None else _commands(hook)

    return Hooks(
        before_login=commands("before_login"),
        before=commands("before"),
        after=commands("after"),
        after_login=commands("after_login"),
    )


def _commands(value: Value) -> tuple[Command, ...]:
    """One script, or a list of commands."""
    if isinstance(value.node, Scalar) or not isinstance(value.node, Items):
        command = read_command(value)
        return () if command is None else (command,)
    found = [read_command(item) for item in value.items("a script, or a list of commands,")]
    return tuple(command for command in found if command is not None)
