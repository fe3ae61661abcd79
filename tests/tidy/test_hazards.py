"""Calls and catches that have hurt others: no pickle, no shell by string, no loose YAML, no stray print.

Run by `make check`. A broad `except` is allowed once per loop, at its outermost level, and listed here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import Module, all_modules, offences, package_modules, snippet

BROAD_EXCEPTS = {
    "tarmac.server.__main__:_run": "the top level of a server: its log has the story, its starter a sentence",
    "tarmac.cli.main:_guarded": "the top level of every command: a person gets a sentence, never a traceback",
    "tarmac.control.loops:_turn": "the top level of a loop: a bug in one pass must not end the loop",
    "tarmac.control.burst.renter:_do": "the top level of a thread: a bug must not end it",
    "tarmac.control.cluster_machines:_do": "the top level of a thread: whoever waits is told of a bug too",
    "tarmac.control.reconcilers.stage:_code": "the top level of one run: a bug met there holds up no other",
    "tarmac.artifacts.remote:_store_errors": "every file system that fsspec finds has errors of its own",
    "tarmac.artifacts.datasets:fetch": "the same: whatever it raises, the dataset could not be fetched",
    "tarmac.server.storage.site_artifacts:_look_again": "the top level of a thread: a bug must not end it",
    "tarmac.server.storage.site_artifacts:_try": "the same, of each site",
    "tarmac.server.storage.cleaners:_tidy_again": "the top level of a thread: a bug must not end clearing up",
    "tarmac.server.notifying.sending:_settle": "the top level of a thread: its message has failed, no other",
    "tarmac.engines.ray.far.program:call": "what Ray raises is known at that end alone: it travels as words",
    "tarmac.node.wire.connection:_answer": "the top level of a thread: whoever waits is told of a bug too",
    "tarmac.node.container.root:_build_and_hold": "the top level of a process: the waiter hears of a bug",
    "tarmac.node.hooks.image:_be_puller": "the top level of a process: the run's end has to say it",
    "tarmac.node.runner:_supervise": "the top level of a runner: a bug leaves no worker behind",
}
"""`module:function` that may catch everything, and why."""

FORBIDDEN_CALLS = {
    "yaml.load": "yaml.safe_load does not run what it reads",
    "yaml.unsafe_load": "yaml.safe_load does not run what it reads",
    "yaml.full_load": "yaml.safe_load does not run what it reads",
    "os.system": "pass an argv to subprocess.run",
    "os.popen": "pass an argv to subprocess.run",
    "eval": "parse instead",
    "exec": "parse instead",
}
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
BROAD_NAMES = {"Exception", "BaseException"}


def test_no_hazardous_calls() -> None:
    assert offences(hazards, all_modules()) == []


def test_prints_stay_in_the_command_line() -> None:
    assert offences(prints, (module for module in package_modules() if module.package != "cli")) == []


def test_broad_excepts_are_listed() -> None:
    assert offences(broad_excepts, package_modules()) == []


def test_every_listed_broad_except_is_still_there() -> None:
    found = {key for module in package_modules() for key, _ in _broad_handlers(module)}
    assert BROAD_EXCEPTS.keys() - found == set()


def test_the_rules_bite() -> None:
    for text in (
        "import yaml\nx = yaml.load('a')",
        "import pickle",
        "from pickle import loads",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import os\nos.system('ls')",
        "eval('1')",
    ):
        assert offences(hazards, [snippet(text)]), text
    assert offences(prints, [snippet("print('hello')")])
    assert offences(broad_excepts, [snippet("def f():\n    try:\n        g()\n    except:\n        pass\n")])
    assert offences(broad_excepts, [snippet("try:\n    g()\nexcept (OSError, Exception):\n    pass\n")])
    for text in ("except OSError:\n    pass\n", "except BaseException:\n    close()\n    raise\n"):
        assert not offences(broad_excepts, [snippet(f"try:\n    g()\n{text}")]), text


def hazards(module: Module) -> Iterator[str]:
    """Calls and imports that let data act as code."""
    for name, call in module.calls():
        if name in FORBIDDEN_CALLS:
            yield f"line {call.lineno}: {name}: {FORBIDDEN_CALLS[name]}"
        for keyword in call.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and not keyword.value.value
            ):
                yield f"line {call.lineno}: shell=True: pass an argv"
    for name, line in module.imports():
        if name.split(".")[0] in FORBIDDEN_IMPORTS:
            yield f"line {line}: imports {name}: what it loads can run anything"


def prints(module: Module) -> Iterator[str]:
    """Calls of print."""
    for name, call in module.calls():
        if name == "print":
            yield f"line {call.lineno}: print"


def broad_excepts(module: Module) -> Iterator[str]:
    """Handlers that catch everything and are not listed."""
    for key, line in _broad_handlers(module):
        if key not in BROAD_EXCEPTS:
            yield f"line {line}: {key} catches everything: name the errors, or list it with its reason"


def _broad_handlers(module: Module) -> Iterator[tuple[str, int]]:
    broad = [node for node in module.nodes if isinstance(node, ast.ExceptHandler) and _is_broad(node)]
    for handler in broad:
        owners = [each.name for each in module.functions() if handler in ast.walk(each)]
        yield f"{module.name}:{owners[-1] if owners else ''}", handler.lineno


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD_NAMES) for kind in caught)
    return broad and not _raises_again(handler)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
