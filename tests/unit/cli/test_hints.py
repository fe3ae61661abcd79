"""Every command that a message names exists: its words and options are parsed as a user's would be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tarmac
from tarmac.cli.catalogue import COMMANDS
from tarmac.cli.main import program

SOURCE = Path(tarmac.__file__).parent
_NAMED = re.compile(r"\btarmac (?=([a-z][^\n`'\"\0]*))")
_PART = re.compile(r"--?[A-Za-z][\w-]*(=\S*)?|\S*[A-Z@0-9/=]\S*|-")
_MARKS = ".,;:)?"
_PROSE = frozenset(
    [
        "agent",
        "chooses",
        "does",
        "for",
        "from",
        "has",
        "home",
        "is",
        "it",
        "itself",
        "launches",
        "needs",
        "passes",
        "places",
        "provisions",
        "reads",
        "rents",
        "runs",
        "secrets",
        "sets",
        "uses",
        "yet",
    ]
)
"""Words after `tarmac` in sentences about the program."""


def texts() -> Iterator[tuple[str, str]]:
    """Every text but docstrings in files that name a command, with its place; what is put into it is X."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        if "tarmac " not in source:
            continue
        nodes = list(ast.walk(ast.parse(source)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        left_out = docstrings | inner
        for node in nodes:
            if id(node) in left_out:
                continue
            where = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                yield (
                    where,
                    "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
                    ),
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield where, node.value


def problem_of(words: list[str]) -> str | None:
    """What is wrong with a command line that a sentence goes on after; None: nothing."""
    command: click.Command = program
    context = click.Context(program)
    while isinstance(command, click.Group) and words and not words[0].startswith(("-", "X")):
        name = words[0].rstrip(_MARKS)
        found = command.get_command(context, name)
        if found is None:
            return (
                f"no command {name!r}" if command is program or not command.invoke_without_command else None
            )
        ends = name != words[0]
        command, words = found, [] if ends else words[1:]
        context = click.Context(command, parent=context)
    line = []
    for word in words:
        if not _PART.fullmatch(word):
            break
        line.append(word.rstrip(_MARKS))
        if line[-1] != word:
            break
    try:
        _, left, _ = command.make_parser(context).parse_args(line)
    except click.BadOptionUsage:
        return None  # the value of the last option is prose
    except click.UsageError as error:
        return error.format_message()
    return f"unexpected {left}" if left and not isinstance(command, click.Group) else None


def named() -> list[tuple[str, str]]:
    return [
        (where, found)
        for where, text in texts()
        for found in _NAMED.findall(text)
        if found.split()[0].rstrip(_MARKS) not in _PROSE
    ]


def test_every_command_that_a_text_names_exists() -> None:
    found = named()
    assert len(found) > 100
    problems = [(where, text, problem_of(text.split())) for where, text in found]
    wrong = [f"{where}: tarmac {text}: {problem}" for where, text, problem in problems if problem]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters add FILE", None),
        ("run FILE --sweep NAME=VALUE,VALUE begins one", None),
        ("cluster add of a local shape", "no command 'add'"),
        ("frobnicate", "no command 'frobnicate'"),
        ("show X --frobnicate", "No such option '--frobnicate'."),
        ("why X Y", "unexpected ['Y']"),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, problem: str | None) -> None:
    assert COMMANDS
    assert problem_of(text.split()) == problem
