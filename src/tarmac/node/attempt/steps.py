"""The setup steps of attempt.json as records, and in words. Called by the runner and by engines.

The field `kind` of an object in attempt.json names its step.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple, Optional, Sequence, Union

from tarmac.node.files.gitrules import shown, without_secrets

_BASH = ("bash", "-eo", "pipefail", "-c")
_LONGEST_WORDS = 160


class CommandStep(NamedTuple):
    """A command of the user's own."""

    argv: tuple[str, ...]
    kind: str = "command"


class CheckoutStep(NamedTuple):
    """A repository below the working directory; `install` are arguments of `pip install` inside it."""

    url: str
    path: str
    branch: Optional[str] = None
    commit: Optional[str] = None
    submodules: bool = False
    install: Optional[str] = None
    kind: str = "checkout"


class PipStep(NamedTuple):
    """The arguments of `pip install`; with `imported` only if the code imports that and Python lacks it."""

    requirements: tuple[str, ...]
    upgrade: bool = False
    imported: Optional[str] = None
    kind: str = "pip"


class AptStep(NamedTuple):
    """Packages of the node's distribution."""

    packages: tuple[str, ...]
    kind: str = "apt"


Step = Union[CommandStep, CheckoutStep, PipStep, AptStep]


def in_words(step: Step) -> str:
    """A step as one line for people: the equivalent shell command."""
    if isinstance(step, CommandStep):
        text = step.argv[-1] if step.argv[: len(_BASH)] == _BASH else shlex.join(step.argv)
        line = " ".join(text.split())
    elif isinstance(step, CheckoutStep):
        line = clone_words(step) + (f", then pip install {step.install}" if step.install else "")
    elif isinstance(step, PipStep):
        line = shlex.join(["pip", "install", *pip_arguments(step)])
        line += f", where the code imports {step.imported}" if step.imported else ""
    else:
        line = shlex.join(["apt-get", "install", *step.packages])
    line = without_secrets(line)
    return line if len(line) <= _LONGEST_WORDS else f"{line[: _LONGEST_WORDS - 3]}..."


def script_lines(step: CommandStep) -> Sequence[str]:
    """The lines of a command as the setup log shows them."""
    argv = step.argv
    if argv[:2] == ("bash", "-c") and argv[2].endswith('\nexec "$@"'):
        argv = argv[4:]  # omit the part that loads modules before the user's command
    return argv[-1].rstrip().split("\n") if argv[: len(_BASH)] == _BASH else [shlex.join(argv)]


def clone_words(step: CheckoutStep) -> str:
    """The equivalent `git clone ...` command."""
    which = step.commit or step.branch
    return f"git clone {shown(step.url)} {step.path}" + (f" at {which}" if which else "")


def pip_arguments(step: PipStep) -> list[str]:
    """Arguments of pip: a requirement is one, including its spaces; options are split like in a shell."""
    found = ["--upgrade"] if step.upgrade else []
    for requirement in step.requirements:
        text = requirement.strip()
        found.extend(split(text) if text.startswith("-") else [text])
    return found


def split(text: str) -> list[str]:
    """The words of a line, split like in a shell; the whole line as one word if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]
