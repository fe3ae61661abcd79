"""Every module opens with what it is for and who calls it, in two sentences at least. Run by `make check`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import Module, all_modules, offences, package_modules, snippet


def test_every_module_says_what_it_is_for() -> None:
    assert offences(no_docstring, all_modules()) == []


def test_every_module_of_the_package_says_who_calls_it() -> None:
    assert offences(terse_docstring, package_modules()) == []


def test_the_rules_bite() -> None:
    assert offences(no_docstring, [snippet("x = 1\n")])
    assert offences(terse_docstring, [snippet('"""Things."""\nx = 1\n')])
    assert not offences(terse_docstring, [snippet('"""Reads run files. Called by `control`."""\nx = 1\n')])
    assert not offences(terse_docstring, [snippet('"""The nouns."""\n', name="tarmac/model/__init__")])


def no_docstring(module: Module) -> Iterator[str]:
    """Modules that open with anything but a docstring."""
    if module.tree.body and not ast.get_docstring(module.tree):
        yield "does not open with a docstring"


def terse_docstring(module: Module) -> Iterator[str]:
    """Modules whose docstring is a single sentence; packages may be as short as that."""
    sentences = re.findall(r"[.!?:;)](?=\s|$)", ast.get_docstring(module.tree) or "")
    if not module.path.endswith("__init__.py") and module.tree.body and len(sentences) < 2:
        yield "the docstring should say what the module is for, and who calls it"
