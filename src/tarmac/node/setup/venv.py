"""Makes layered virtual environments without the module venv: each sees those below. Called by `layers`.

`python -m venv` would take a hundred times as long, and could not put one environment over another.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from typing import Optional, Sequence

from tarmac.node.files import untrusted
from tarmac.node.setup.interpreter import Interpreter

_LAYERS = "_tarmac_layers.pth"
_OWN = ("python", "pip", "activate", "Activate", "easy_install", "wheel")
"""Prefixes of scripts that are never copied from below: each environment has its own."""

_PIP = """\
for word; do
  shift
  [ "$word" = --user ] || set -- "$@" "$word"
done
exec "${0%/*}/python" -m pip "$@\""""
"""pip without `--user`: packages belong in the environment instead."""


def make(directory: str, python: Interpreter, below: Sequence[str]) -> None:
    """Make an empty environment that finds packages of the directories `below`, in this order."""
    binaries, site = bin_of(directory), site_of(directory, python)
    os.makedirs(binaries, exist_ok=True)
    os.makedirs(site, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink("lib", os.path.join(directory, "lib64"))
    for name in ("python", "python3", f"python{python.version}"):
        with suppress(FileExistsError):
            os.symlink(python.base, os.path.join(binaries, name))
    _write(
        os.path.join(directory, "pyvenv.cfg"),
        f"home = {os.path.dirname(python.base)}\n"
        "include-system-site-packages = false\n"
        f"version = {python.whole_version}\n",
    )
    for name in ("pip", "pip3"):
        _write_script(os.path.join(binaries, name), _PIP)
    set_below(directory, python, below)


def set_below(directory: str, python: Interpreter, below: Sequence[str]) -> None:
    """Replace the directories below an environment."""
    places = repr([place for place in below if place != site_of(directory, python)])
    # A .pth line that begins with `import` is executed; directories that it adds are read for .pth files.
    line = f"import os, site; list(map(site.addsitedir, filter(os.path.isdir, {places})))\n"
    path = os.path.join(site_of(directory, python), _LAYERS)
    _write(f"{path}.draft", line)
    os.replace(f"{path}.draft", path)


def bin_of(directory: str) -> str:
    """The directory of an environment's programs."""
    return os.path.join(directory, "bin")


def site_of(directory: str, python: Interpreter) -> str:
    """The directory of an environment's packages."""
    return os.path.join(directory, "lib", f"python{python.version}", "site-packages")


def python_of(directory: str) -> str:
    """The interpreter of an environment."""
    return os.path.join(directory, "bin", "python")


def contents(directory: str, python: Interpreter) -> frozenset[str]:
    """The names of an environment's packages."""
    with suppress(OSError):
        return frozenset(os.listdir(site_of(directory, python))) - {_LAYERS, "__pycache__"}
    return frozenset()


def pass_on_scripts(binaries: str, target: str, *, others: bool) -> None:
    """Make the programs of a lower environment in `target`, its Python scripts run by the topmost one.

    A script names its own interpreter, which ignores the environments above it: `torchrun` below would not
    find packages installed here. With `others`, programs of another kind are linked as well.
    """
    draft = f"{target}.{os.urandom(6).hex()}"  # a pid is local to a namespace
    with suppress(OSError):
        untrusted.remove_tree(draft)
    os.makedirs(draft)
    for name in sorted(_listed(binaries)):
        path = os.path.join(binaries, name)
        if name.startswith(_OWN) or not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        interpreter = _interpreter_of(path)
        if interpreter is not None and os.path.dirname(interpreter) == binaries:
            script = shlex.quote(path)
            _write_script(
                os.path.join(draft, name),
                f'[ -n "$VIRTUAL_ENV" ] || exec {script} "$@"\nexec "$VIRTUAL_ENV/bin/python" {script} "$@"',
            )
        elif others:
            os.symlink(path, os.path.join(draft, name))
    try:
        os.rename(draft, target)
    except OSError:  # another process made it meanwhile
        with suppress(OSError):
            untrusted.remove_tree(draft)


def _interpreter_of(path: str) -> Optional[str]:
    """The Python in a script's first line; if the path is too long, pip writes a line for the shell."""
    try:
        head = untrusted.first_bytes(os.path.realpath(path), 1024)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    lines = head.decode("utf-8", "replace").split("\n")
    words = lines[0][2:].split()
    if words and words[0] == "/bin/sh" and len(lines) > 1 and lines[1].startswith("'''exec' "):
        words = [lines[1][len("'''exec' ") :].split(" ")[0].strip('"')]
    return words[0] if words and os.path.basename(words[0]).startswith("python") else None


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _write_script(path: str, line: str) -> None:
    _write(path, f"#!/bin/sh\n{line}\n")
    os.chmod(path, 0o755)
