"""Resolves the names of a script: imports of Clusterfudge, and names that are assigned once. Pure.

Called by `calls`, which checks a script without running it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

PACKAGE = "clusterfudge"
_PACKAGES = frozenset({PACKAGE, f"tarmac.{PACKAGE}", f"{PACKAGE}.{PACKAGE}"})


class Bindings:
    """The names of one script."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules: set[str] = set()
        self._names: dict[str, str] = {}
        self.imported: list[tuple[str, ast.stmt]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {alias.asname or alias.name for alias in node.names if _ours(alias.name)}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                self._take(node, node.module)
        self._values = dict(_assigned_once(tree))

    def member(self, node: ast.expr) -> str | None:
        """The name in the package that an expression refers to, such as `Job`; None for other expressions."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute) and (path := _dotted(node.value)) in self._paths():
            assert path is not None, "None is no path"
            return node.attr
        return None

    def value(self, node: ast.expr) -> ast.expr:
        """The assigned expression of a name that is assigned once; any other expression unchanged."""
        for _ in range(8):
            if not isinstance(node, ast.Name) or node.id not in self._values:
                break
            node = self._values[node.id]
        return node

    def _paths(self) -> set[str]:
        return self._modules | {f"{module}.{PACKAGE}" for module in self._modules}

    def _take(self, node: ast.ImportFrom, module: str) -> None:
        for alias in node.names:
            if (module == "tarmac" and alias.name == PACKAGE) or (
                module in _PACKAGES and alias.name == PACKAGE
            ):
                self._modules.add(alias.asname or alias.name)
            elif module in _PACKAGES and alias.name != "*":
                self._names[alias.asname or alias.name] = alias.name
                self.imported.append((alias.name, node))


def _ours(module: str) -> bool:
    return module in _PACKAGES or module == "tarmac"


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _assigned_once(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names that are assigned exactly once, with their values."""
    times = Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    times.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and times[target.id] == 1:
                yield target.id, node.value
