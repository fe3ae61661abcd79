"""The command of an experiment: a shell text, a list, a trial class or a launcher. Called by `reader`."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from tarmac.dialects.section import Value
from tarmac.model.spec import Command

_TRIAL_CLASS = re.compile(r"[a-zA-Z0-9_.]+:[a-zA-Z0-9_]+", re.ASCII)
_LAUNCHER = re.compile(r"determined\.launch\.[a-z_]+", re.ASCII)
_OPERATORS = re.compile(r"[;&|<>()]+")
_WRAPPER = "wrap_rank"
_TRIAL_NEEDS = (
    "entrypoint: a trial class is one of the package 'determined', which is installed for the run where its "
    "Python does not have it"
)


def read_entrypoint(value: Value, entrypoint: Any) -> Command:
    """The command of an entry point that was already read; warns of likely mistakes in it."""
    if isinstance(entrypoint, str) and _TRIAL_CLASS.fullmatch(entrypoint):
        value.problems.warn(value.node, _TRIAL_NEEDS)
        return Command(argv=("python3", "-m", "determined.launch.autohorovod", "--trial", entrypoint))
    words = _words(entrypoint)
    if not words:
        value.refuse("there is nothing to execute", "such as: python3 train.py")
        return Command(argv=("true",))
    _check_launchers(value, words)
    if isinstance(entrypoint, str):
        return Command(argv=("sh", "-c", entrypoint))
    return Command(argv=tuple(entrypoint))


def _words(entrypoint: Any) -> list[str]:
    """The words of the entry point; those of a text as far as they are known without a shell."""
    if not isinstance(entrypoint, str):
        return [str(word) for word in entrypoint] if any(entrypoint) and entrypoint[0] else []
    try:
        lines = entrypoint.replace("\\\n", " ").strip().replace("\n", " ; ")
        lexer = shlex.shlex(lines, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        return list(lexer)
    except ValueError:  # unclosed quotes: the shell will report them
        return entrypoint.split()


def _check_launchers(value: Value, words: Sequence[str]) -> None:
    trains = False
    for index, word in enumerate(words[1:], start=1):
        if words[index - 1] == "-m" and _LAUNCHER.fullmatch(word) and _WRAPPER not in word:
            arguments = _arguments(words[index + 1 :])
            _check_arguments(value, word, arguments)
            trains = trains or "--trial" in arguments
    if trains:
        value.problems.warn(value.node, _TRIAL_NEEDS)


def _arguments(words: Sequence[str]) -> list[str]:
    """The arguments of one command, up to the operator that ends it in a shell."""
    end = next((index for index, word in enumerate(words) if _OPERATORS.fullmatch(word)), len(words))
    return list(words[:end])


def _check_arguments(value: Value, launcher: str, arguments: list[str]) -> None:
    """Check that a launcher starts exactly one trial class or script, after its own overrides."""
    started = arguments[arguments.index("--") + 1 :] if "--" in arguments else arguments
    if {"-h", "--help"} & set(arguments[:1]):
        return
    if not started:
        value.refuse(
            f"{launcher} is given nothing to start", "a script with its arguments, or --trial file:Class"
        )
    elif started[0] == "--trial" and len(started) == 1:
        value.refuse("--trial names no trial class", "such as --trial model_def:MyTrial")
    elif started[0] == "--trial" and len(started) > 2:
        value.refuse(
            f"a trial class and a script cannot be started both: {' '.join(started[1:3])[:80]!r}",
            f"{launcher} takes --trial {started[1]}, or a script with its arguments",
        )
