"""Writes the usage and the options of every command into docs/using/cli.md, which so cannot drift from it.

Called by people after a change of an option (`python tools/cli_page.py`) and by the tests (`--check`: fails
when the page is not what would be written, or leaves a command out). The prose between is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from tarmac.cli.catalogue import COMMANDS

PAGE = Path(__file__).resolve().parents[1] / "docs/using/cli.md"

BLOCK = re.compile(r"<!-- usage: (?P<command>[a-z -]+?) -->\n.*?<!-- end -->", re.DOTALL)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    commands = dict(all_commands())
    written = BLOCK.sub(lambda block: usage(block["command"], commands), text)
    if missing := commands.keys() - {block["command"] for block in BLOCK.finditer(text)}:
        print(f"{PAGE.name} says nothing of: {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        if written != text:
            print(f"{PAGE.name} is out of date: python tools/cli_page.py", file=sys.stderr)
        return int(written != text)
    PAGE.write_text(written, encoding="utf-8")
    return 0


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its words after `tarmac`, groups before their commands."""
    for name, entry in COMMANDS.items():
        command: click.Command = getattr(import_module(entry.module), name.replace("-", "_"))
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in command.commands)


def usage(name: str, commands: dict[str, click.Command]) -> str:
    """The block of one command: how it is called, and a table of its options."""
    command = commands[name]
    context = click.Context(command, info_name=f"tarmac {name}")
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [f"<!-- usage: {name} -->", "```", f"tarmac {name} {pieces}".rstrip(), "```"]
    options = [param for param in command.params if isinstance(param, click.Option)]
    rows = [row for option in options if (row := option.get_help_record(context))]
    if rows:
        lines += ["", "| option | does |", "|---|---|"]
        lines += [
            f"| `{option.replace('|', chr(92) + '|')}` | {' '.join(text.split())} |" for option, text in rows
        ]
    return "\n".join([*lines, "<!-- end -->"])


if __name__ == "__main__":
    sys.exit(main())
