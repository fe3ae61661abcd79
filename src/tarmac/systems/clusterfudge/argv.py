"""Warnings about argument lists, which no shell reads. Used for requests and for scripts. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence

from tarmac.dialects.native.commands import is_shell
from tarmac.dialects.native.environment import EXPANSION


def argv_doubts(argv: Sequence[str]) -> Iterator[str]:
    """Sentences for the user, each with a correction."""
    if not argv or not argv[0]:
        return
    program, *rest = argv
    if len(argv) == 1 and re.search(r"\s", program.strip()):
        yield f"{_short(program)} is taken as the name of a program; did you mean {split(program)}?"
        return
    if is_shell(argv):
        yield from _script_doubts(program, rest)
        return
    for word in rest:
        if word in _OPERATORS:
            yield f"no shell reads a command: {word!r} is passed on as an argument; {_SHELL_HINT}"
            return
        if found := EXPANSION.search(word):
            yield f"no shell reads a command: {found[0]!r} reaches the program as it is; {_SHELL_HINT}"
            return


def split(command: str) -> str:
    """A command line in the form of a list."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    listed = ", ".join(f'"{word}"' for word in words)
    return _short(f"[{listed}]", quoted=False)


_OPERATORS = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "2>&1", "&"})
_SHELL_HINT = 'write ["bash", "-c", "..."] where a shell is wanted'


def _script_doubts(program: str, rest: Sequence[str]) -> Iterator[str]:
    """Warnings about `bash -c`: it takes one script; further arguments are parameters from $0 on."""
    if len(rest) == 1:
        yield f"{program} {rest[0]} has no script after it"
    elif len(rest) > 2 and not _PARAMETER.search(rest[1]):
        yield (
            f"{program} {rest[0]} executes only {_short(rest[1])}, and {_short(rest[2])} is a parameter that "
            "it does not use: write the whole command as one text"
        )


_PARAMETER = re.compile(r"\$([0-9@*#]|\{[0-9@*#])", re.ASCII)


def _short(text: str, *, quoted: bool = True) -> str:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return repr(shown) if quoted else shown
