"""The command of an ISC launch file: line breaks act as blanks, with warnings where that matters.

Called by the reader. The node's shell expands the variables; this module expands nothing.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from tarmac.dialects import topology
from tarmac.model.spec import Command

SHELL = ("bash", "-c")
NAMES = topology.Names(nodes="$NNODES", processes="$N_PROC", world="$((NNODES * N_PROC))", slots="gpus")


def joined(text: str) -> str:
    """The command as the node's shell receives it (I5)."""
    *lines, last = text.replace("\\\n", "").split("\n")
    return "".join([*(f"{_without_end(line)} " for line in lines), last]).strip()


def _without_end(line: str) -> str:
    """A line without trailing blanks and without the backslash at its end, even one with blanks behind it."""
    bare = line.rstrip(" \t")
    if bare != line:
        bare = bare.removesuffix("\\").rstrip(" \t")
    return bare.removesuffix("\\").rstrip(" \t")


def command_of(text: str) -> Command:
    """The command of each node: as in the ISC, a failing command inside the text does not end it."""
    return Command(argv=(*SHELL, joined(text)))


def doubts(text: str, slots: int | None, *, has_code: bool = False) -> Iterator[str]:
    """Warnings about a command, as sentences.

    `slots` is the expected number of processes; `has_code` is whether the submission brings a directory.
    """
    yield from _swallowed(text)
    yield from _script(text)
    if slots is not None:
        yield from topology.doubts(text, slots, NAMES)
    if not has_code:
        yield from _relative(text)


# --- effects of joining the lines

_STARTERS = re.compile(
    r"(?:cd|source|\.|export|unset|set|echo|printf|mkdir|rm|cp|mv|ln|ls|cat|touch|chmod|sleep|ulimit|pwd|eval|exec"
    r"|python[\d.]*|pip[\d.]*|torchrun|accelerate|deepspeed|conda|git|wget|curl|unzip|tar|nvidia-smi|bash|sh"
    r"|apt|apt-get|sudo|module|wandb|huggingface-cli|if|for|while|case|fi|done|esac|nohup|time)(?=\s|$)"
    r"|[A-Za-z_]\w*=\S*\s*$",
    re.ASCII,
)
_ASSIGNED = re.compile(r"""(?:\s*[A-Za-z_]\w*=(?:'[^']*+'|"[^"]*+"|[^\s'"]++)*+)++\s*""", re.ASCII)
_GOES_ON = re.compile(r"(?:&&|\|\|?|;|&|\\|[({]|\b(?:then|do|else|env|exec|nohup|time|sudo))\s*$", re.ASCII)
_COMMENT = re.compile(r"""'[^']*+'|"(?:[^"\\]++|\\[\s\S])*+"|\\[\s\S]|(?:(?<=[\s;&|(])|\A)(#)""")


def _swallowed(text: str) -> Iterator[str]:
    """Warn of a comment: it ends with its line, but the joined command has only one line."""
    for found in _COMMENT.finditer(text):
        if found[1] is None:
            continue
        after = text[found.start() :].partition("\n")[2]
        if after.strip():
            line = text.count("\n", 0, found.start()) + 1
            yield (
                f"'#' in line {line} of it makes a comment of all that follows: line breaks act as blanks in "
                "an ISC command; take the comment out"
            )
        return


def _script(text: str) -> Iterator[str]:
    """Warn of lines that begin a command of their own: joined, they become arguments of the line before."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for (_, before), (number, line) in pairwise(lines):
        found = _STARTERS.match(line.strip())
        goes_on = _GOES_ON.search(before) or _ASSIGNED.fullmatch(before) or before.lstrip().startswith("#")
        if found is not None and not goes_on:
            yield (
                f"line {number} of it ({found[0].strip()[:40]!r} ...) looks like a command of its own, but "
                "line breaks act as blanks in an ISC command: join commands by &&, or write a native run "
                "file (tarmac convert), whose 'command' keeps its lines"
            )
            return


# --- where the command looks for its files

_PROGRAM_FILE = re.compile(r"(?:^|\s)((?!-)[\w.][\w./-]*\.(?:py|sh))(?=\s|$)", re.ASCII)


def _relative(text: str) -> Iterator[str]:
    """Warn of a program named without its directory if the command never changes into one."""
    if re.search(r"(?:^|[\s;&|(])(?:cd|pushd|git)\s", text):
        return
    found = _PROGRAM_FILE.search(text)
    if found is not None:
        yield (
            f"{found[1][:60]!r} is looked for in an empty work directory: name its whole path, cd to it, or "
            "bring it by tarmac run --code DIR"
        )
