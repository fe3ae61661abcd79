"""The source of this repository as parsed modules, for the tidy tests to hold rules against.

A rule is a function from a `Module` to the offences in it. `offences` runs one over many modules; the tests
in tests/tidy run each over the tree (there must be none) and over a bad `snippet` (there must be some).
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PURE_PACKAGES = ("model", "sched", "launch", "search")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One parsed file. `name` is dotted for our package (tarmac.model.run), else the path from the root.

    `nodes` are all nodes of the tree: many rules look at each.
    """

    name: str
    path: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @property
    def line_count(self) -> int:
        return self.text.count("\n")

    @property
    def package(self) -> str:
        """The package below tarmac that the module is in: `model` for tarmac.model.run; "" elsewhere."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == "tarmac" and len(parts) > 1 else ""

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in self.nodes if isinstance(node, Function))

    def imports(self) -> Iterator[tuple[str, int]]:
        """Everything the module imports, wherever it does so, with the line."""
        return (
            (name, node.lineno)
            for node in self.nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imported(node)
        )

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call with the dotted name of what is called ("" where it is not a plain name)."""
        return ((dotted(node.func), node) for node in self.nodes if isinstance(node, ast.Call))


Rule = Callable[[Module], Iterable[str]]


def offences(rule: Rule, modules: Iterable[Module]) -> list[str]:
    """What `rule` finds in all of `modules`, each with its place."""
    return [f"{module.path}: {offence}" for module in modules for offence in rule(module)]


def snippet(text: str, name: str = "tarmac.sample.thing") -> Module:
    """A module made of `text`, as if it stood at `name`."""
    return _parsed(name, f"{name}.py", text)


@cache
def package_modules() -> tuple[Module, ...]:
    """Every module of the package itself."""
    return _read("src")


@cache
def suite_modules() -> tuple[Module, ...]:
    """Every module below tests."""
    return _read("tests")


@cache
def all_modules() -> tuple[Module, ...]:
    """Everything in Python that this repository holds."""
    return package_modules() + suite_modules() + _read("tools") + _read("benchmarks") + _read("examples")


def imported(node: ast.AST) -> list[str]:
    """What an import statement names, in full: `from a import b` names a.b. [] for anything else."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = node.module or "" if not node.level else f"tarmac.{node.module or ''}".rstrip(".")
        return [f"{origin}.{alias.name}" for alias in node.names]
    return []


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names and attributes, "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _read(folder: str) -> tuple[Module, ...]:
    gc.disable()  # trees are no garbage, and the collector would look at all of them again and again
    try:
        return tuple(
            _parsed(_name(path.relative_to(ROOT)), str(path.relative_to(ROOT)), path.read_text("utf-8"))
            for path in sorted((ROOT / folder).rglob("*.py"))
        )
    finally:
        gc.freeze()
        gc.enable()


def _parsed(name: str, path: str, text: str) -> Module:
    tree = ast.parse(text, path)
    return Module(name=name, path=path, text=text, tree=tree, nodes=tuple(ast.walk(tree)))


def _name(relative: Path) -> str:
    if relative.parts[0] != "src":
        return str(relative)
    parts = relative.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
