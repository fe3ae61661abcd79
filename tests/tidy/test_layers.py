"""The shape of the package: layers, no cycles, no imports hidden in functions, no modules for odds and ends.

Run by `make check`. The layers themselves are stated in `.importlinter`; here they are held against the tree.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grimp

from source_tree import ROOT, Module, all_modules, imported, offences, package_modules, snippet

SHAPELESS_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "stuff", "base"}

LAZY_MODULES = {
    "tarmac.cli.cluster_words",
    "tarmac.cli.commands.metrics",
    "tarmac.cli.people.tokens",
    "tarmac.cli.commands.run",
    "tarmac.cli.commands.server",
    "tarmac.cli.commands.simulate",
    "tarmac.cli.views.errors",
    "tarmac.cli.options",
    "tarmac.cli.dialogue",
    "tarmac.client.client",
    "tarmac.client.embedded",
    "tarmac.client.logins",
    "tarmac.client.transport",
    "tarmac.engines.ray.far.program",
    "tarmac.engines.ray.kind",
    "tarmac.engines.ray.servers",
    "tarmac.engines.slurm.kind",
    "tarmac.engines.unicore.kind",
    "tarmac.node.__main__",
    "tarmac.node.hooks.image",
    "tarmac.node.peers.__main__",
    "tarmac.engines.firecrest.kind",
    "tarmac.node.runner",
    "tarmac.providers.ec2.kind",
    "tarmac.samplers",
    "tarmac.cli.commands.search",
    "tarmac.server.__main__",
    "tarmac.server.accounts.account_service",
    "tarmac.server.http.tls",
    "tarmac.server.accounts.sign_on",
    "tarmac.server.setting_reader",
    "tarmac.systems.clusterfudge.dialect",
    "tarmac.systems.gateways",
    "tarmac.server.settings",
}
"""Modules that may import ours inside functions: a command line, and a server's lock, must answer at once,
and a server starts without the engines and the samplers that it does not need."""

Graph = Mapping[str, Iterable[str]]


def test_every_import_contract_holds() -> None:
    """`.importlinter` as it stands, through the same command that developers use."""
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_import_cycles() -> None:
    assert find_cycle(_imports()) == []


def test_a_cycle_would_be_found() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert find_cycle({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_own_packages_are_imported_at_the_top() -> None:
    assert offences(hidden_imports, package_modules()) == []


def test_a_hidden_import_would_be_found() -> None:
    assert offences(hidden_imports, [snippet("def f():\n    from tarmac.model import run\n")])
    assert offences(hidden_imports, [snippet("def f():\n    import tarmac.model\n")])
    assert not offences(
        hidden_imports, [snippet("from tarmac.model import run\ndef f():\n    import json\n")]
    )


def test_every_lazy_module_still_is() -> None:
    lazy = {module.name for module in package_modules() if list(_inner_imports(module))}
    assert LAZY_MODULES - lazy == set()


def test_modules_have_names_that_say_something() -> None:
    assert offences(shapeless_name, all_modules()) == []
    assert offences(shapeless_name, [snippet("", name="tarmac.store.utils")])


def hidden_imports(module: Module) -> Iterator[str]:
    """Imports of our own packages inside functions."""
    if module.name not in LAZY_MODULES:
        yield from _inner_imports(module)


def shapeless_name(module: Module) -> Iterator[str]:
    """Module names under which anything could stand."""
    for part in module.name.removesuffix(".py").replace("/", ".").split("."):
        if part in SHAPELESS_NAMES:
            yield f"a module called {part!r} says nothing of what is in it"


def find_cycle(graph: Graph) -> list[str]:
    """A cycle of the graph, from a node back to it; [] when there is none."""
    finished: set[str] = set()
    for start in sorted(graph):
        trail: list[str] = []
        pending = [(start, iter(sorted(graph[start])))] if start not in finished else []
        trail += [start] if pending else []
        while pending:
            node, following = pending[-1]
            target = next(following, None)
            if target is None:
                finished.add(node)
                pending.pop()
                trail.pop()
            elif target in trail:
                return [*trail[trail.index(target) :], target]
            elif target not in finished:
                trail.append(target)
                pending.append((target, iter(sorted(graph.get(target, ())))))
    return []


def _imports() -> Graph:
    graph = grimp.build_graph("tarmac", cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def _inner_imports(module: Module) -> Iterator[str]:
    if not any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in module.nodes):
        return
    for function in module.functions():
        for node in ast.walk(function):
            for name in imported(node):
                if name.split(".")[0] == "tarmac":
                    yield f"{function.name} imports {name}"
