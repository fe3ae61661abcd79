"""Guides followed to the letter: their files are written, their commands typed, and what they print compared.

A block of a guide in a language is a file, whose first line names it: `# train.py`. A block `console` is
typed: what follows a command is what it prints, where `...` stands for anything. A command that is answered
by `error:` has to fail, any other to succeed. A block without a language is only read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
LIMIT_S = 240.0
READS = (
    *("tarmac why", "tarmac ls", "tarmac show", "tarmac logs", "tarmac queue", "tarmac nodes"),
    *("tarmac burst ls", "tarmac server status", "curl"),
)
"""Commands that a reader repeats until they say what is awaited."""

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody with a home and a shell; `as_user` makes a command somebody else's."""

    home: Path
    environment: Mapping[str, str]
    as_user: tuple[str, ...] = ()

    def follow(self, text: str) -> None:
        """Do what a guide says, from its first line to its last."""
        for indent, language, content in BLOCK.findall(text):
            block = re.sub(rf"^{indent}", "", content, flags=re.MULTILINE)
            if language == "console":
                for line, expected in typed(block):
                    self.expect(line, expected)
            else:
                self.write(block)

    def expect(self, line: str, expected: str) -> None:
        """Type a line until it prints what is expected; it is repeated if it only reads."""
        fails = re.search(r"^(\.\.\.)?(error|tarmac server):", expected, re.MULTILINE) is not None
        deadline = time.monotonic() + LIMIT_S
        while True:
            done = self.run(line)
            if (done.returncode != 0) is fails and matches(expected, done.stdout):
                return
            late = not line.startswith(READS) or time.monotonic() > deadline
            assert not late, f"$ {line}\n{done.stdout}\nexit code {done.returncode}, and not:\n{expected}"

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Type a line; its exit code and what it prints."""
        done = subprocess.run(
            [*self.as_user, "bash", "-c", line],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert "Traceback" not in done.stdout, f"$ {line}\n{done.stdout}"
        return done

    def write(self, block: str) -> None:
        """Write a file that a guide shows; its first line names it."""
        named = re.match(r"# (\S+)$", block.partition("\n")[0])
        assert named is not None, f"a block of a guide does not name its file:\n{block}"
        path = self.home / named[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)


@contextmanager
def newcomer(home: Path, **variables: str) -> Iterator[Reader]:
    """Somebody who has never used tarmac, in a home of their own; their server is stopped at the end."""
    home.mkdir(parents=True)
    programs = home / "bin"
    programs.mkdir()
    for name, module in (("tarmac", " -m tarmac.cli"), ("python3", ""), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n')
        program.chmod(0o755)
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TARMAC_", "XDG_", "NO_COLOR"))
    }
    path = f"{programs}{os.pathsep}{own['PATH']}"
    reader = Reader(home, {**own, "HOME": str(home), "PATH": path, "COLUMNS": "160", **variables})
    try:
        yield reader
    finally:
        reader.run("tarmac stop --all --yes --wait || true; tarmac server stop || true")


def page(name: str) -> str:
    """The text of a page below `docs`."""
    return (DOCS / name).read_text(encoding="utf-8")


def typed(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what the guide says that it prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    commands = []
    for part in parts[1:]:
        line, _, expected = part.partition("\n")
        while line.endswith("\\"):
            more, _, expected = expected.partition("\n")
            line = f"{line}\n{more}"
        commands.append((line, expected))
    return commands


def matches(expected: str, printed: str) -> bool:
    """Whether the lines are there, in their order: `...` stands for anything."""
    position = 0
    for line in expected.splitlines():
        form = ".*?".join(re.escape(part) for part in line.split("..."))
        found = re.compile(form, re.DOTALL).search(printed, position)
        if found is None:
            return False
        position = found.end()
    return True
