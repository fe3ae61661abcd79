"""Every module opens with what it is for and who calls it, in two sentences at least. Run by `make check`.

Who is named there exists: a module, or a function or class of ours.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from source_tree import ROOT, Module, all_modules, offences, package_modules, snippet


def test_every_module_says_what_it_is_for() -> None:
    assert offences(no_docstring, all_modules()) == []


def test_every_module_of_the_package_says_who_calls_it() -> None:
    assert offences(terse_docstring, package_modules()) == []


def test_who_is_said_to_call_a_module_exists() -> None:
    assert offences(unknown_callers, package_modules()) == []


def test_the_rules_bite() -> None:
    assert offences(no_docstring, [snippet("x = 1\n")])
    assert offences(terse_docstring, [snippet('"""Things."""\nx = 1\n')])
    assert not offences(terse_docstring, [snippet('"""Reads run files. Called by `control`."""\nx = 1\n')])
    assert not offences(terse_docstring, [snippet('"""The nouns."""\n', name="tarmac/model/__init__")])

    assert offences(unknown_callers, [snippet('"""Reads. Called by `nobody_there`."""\n')])
    assert offences(unknown_callers, [snippet('"""Reads. See `wiring.py`."""\n')])
    good = '"""Reads. Called by `server/wiring.py`, `control` and `read_settings`."""\n'
    assert not offences(unknown_callers, [snippet(good)])


def no_docstring(module: Module) -> Iterator[str]:
    """Modules that open with anything but a docstring."""
    if module.tree.body and not ast.get_docstring(module.tree):
        yield "does not open with a docstring"


def terse_docstring(module: Module) -> Iterator[str]:
    """Modules whose docstring is a single sentence; packages may be as short as that."""
    sentences = re.findall(r"[.!?:;)](?=\s|$)", ast.get_docstring(module.tree) or "")
    if not module.path.endswith("__init__.py") and module.tree.body and len(sentences) < 2:
        yield "the docstring should say what the module is for, and who calls it"


def unknown_callers(module: Module) -> Iterator[str]:
    """Callers and files, named in the docstring of a module, that are not there."""
    text = (ast.get_docstring(module.tree) or "").replace("\n", " ")
    for callers in re.findall(r"\bby (?:the )?((?:`[\w.]+`(?: and |, and |, | or )?)+)", text):
        for name in re.findall(r"`([\w.]+)`", callers):
            if not name.endswith(".py") and name.rpartition(".")[2] not in _known_names():
                yield f"`{name}` is neither a module nor a function or class"
    for path in re.findall(r"`([\w/]+\.py)`", text):
        folder = (ROOT / module.path).parent
        if not (folder / path).exists() and not (ROOT / "src/tarmac" / path).exists():
            yield f"there is no file `{path}`"


@cache
def _known_names() -> frozenset[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for m in package_modules() for node in m.nodes if isinstance(node, defined)}
    return frozenset(names | {part for module in package_modules() for part in module.name.split(".")})
