"""Pure layers read no clock, no randomness and no environment, so that every decision can be replayed.

`.importlinter` keeps them from importing such modules; here the ways around it are closed. See
`make check`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import PURE_PACKAGES, Module, dotted, offences, package_modules, snippet

IMPURE_MODULES = {"time", "random", "secrets", "uuid", "os", "socket", "subprocess", "threading", "asyncio"}
CLOCK_CALLS = {"now", "utcnow", "today"}
EXCEPTIONS = {"tarmac.search.space": {"random.Random"}, "tarmac.model.codec": {"threading.Lock"}}
"""Exceptions: a generator whose seed is an argument, and a lock around the first use of a decoder."""

IMPURE_BUILTINS = {"open", "input", "__import__", "id", "hash"}


def test_pure_layers_are_pure() -> None:
    pure = [module for module in package_modules() if module.package in PURE_PACKAGES]
    assert pure
    assert offences(impure, pure) == []


def test_the_rule_bites() -> None:
    for text in (
        "import time",
        "from random import choice",
        "def f():\n    import os\n",
        "import datetime\nx = datetime.datetime.now()",
        "from datetime import date\nx = date.today()",
        "x = open('/etc/hostname')",
        "x = os.environ['HOME']",
    ):
        assert offences(impure, [snippet(text)]), text
    assert not offences(impure, [snippet("def plan(now: float) -> float:\n    return now + 1\n")])


def impure(module: Module) -> Iterator[str]:
    """Reads of the clock, of randomness, of the environment or of the disk."""
    for name, line in module.imports():
        if name.split(".")[0] in IMPURE_MODULES and name not in EXCEPTIONS.get(module.name, ()):
            yield f"line {line}: imports {name}"
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and dotted(node).startswith("os."):
            yield f"line {node.lineno}: uses {dotted(node)}"
    for name, call in module.calls():
        owner, _, method = name.rpartition(".")
        if name in IMPURE_BUILTINS or (
            method in CLOCK_CALLS and owner.split(".")[-1] in {"datetime", "date"}
        ):
            yield f"line {call.lineno}: calls {name}"
