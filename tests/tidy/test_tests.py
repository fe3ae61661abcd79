"""The tests themselves: they wait for events instead of sleeping, and bring fakes instead of patching.

Run by `make check`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import Module, offences, snippet, suite_modules

ENGINES = {"running_slurm", "running_ray", "ssh_servers"}
"""What starts a real engine, in tests/support."""

SLEEPS = {"time.sleep", "sleep", "asyncio.sleep", "anyio.sleep"}


def test_no_test_sleeps() -> None:
    assert offences(sleeps, suite_modules()) == []


def test_no_test_patches() -> None:
    assert offences(patches, suite_modules()) == []


def test_what_starts_a_real_engine_is_marked() -> None:
    assert offences(unmarked_engines, suite_modules()) == []


def test_the_rules_bite() -> None:
    assert offences(sleeps, [snippet("import time\ntime.sleep(1)")])
    assert offences(sleeps, [snippet("from time import sleep as nap\nnap(1)")])
    assert offences(unmarked_engines, [snippet("from slurm_clusters import running_slurm")])
    for text in (
        "from unittest import mock",
        "import unittest.mock",
        "from unittest.mock import patch",
        "def test(monkeypatch):\n    monkeypatch.setattr(thing, 'name', 1)\n",
        "def test(mocker): ...",
    ):
        assert offences(patches, [snippet(text)]), text
    assert not offences(patches, [snippet("def test(monkeypatch):\n    monkeypatch.setenv('A', 'b')\n")])


def unmarked_engines(module: Module) -> Iterator[str]:
    """Starting a real engine without the marker that `make test` leaves out."""
    if module.path.startswith("tests/support/") or "real_engine" in module.text:
        return
    for name, line in module.imports():
        if name.rpartition(".")[2] in ENGINES:
            yield f"line {line}: imports {name}: mark what uses it as real_engine"


def sleeps(module: Module) -> Iterator[str]:
    """Sleeping, under whatever name it was imported."""
    for name, call in module.calls():
        if name in SLEEPS:
            yield f"line {call.lineno}: {name}: wait for the event itself"
    for name, line in module.imports():
        if name in SLEEPS:
            yield f"line {line}: imports {name}: wait for the event itself"


def patches(module: Module) -> Iterator[str]:
    """Patching: ports have fakes with knobs for that."""
    for name, line in module.imports():
        if name.startswith("unittest.mock"):
            yield f"line {line}: imports {name}: give the code a fake instead"
    for node in module.nodes:
        if isinstance(node, ast.arg) and node.arg == "mocker":
            yield f"line {node.lineno}: uses mocker: give the code a fake instead"
    for name, call in module.calls():
        if name in {"monkeypatch.setattr", "monkeypatch.delattr"}:
            yield f"line {call.lineno}: {name}: give the code a fake instead"
