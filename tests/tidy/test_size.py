"""Files and functions stay short enough to be read in one sitting. Run by `make check`."""

from __future__ import annotations

from collections.abc import Iterator

from source_tree import Module, all_modules, offences, snippet

FILE_LINES = 400
FUNCTION_LINES = 60

LONG_FILES: dict[str, str] = {}
"""Files between FILE_LINES and 600 lines, each with the reason why cutting it would make it worse."""

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions (`path:name`) between FUNCTION_LINES and 70 lines, each with its reason."""


def long_files(module: Module) -> Iterator[str]:
    """Modules longer than they should be."""
    limit = 600 if module.path in LONG_FILES else FILE_LINES
    if module.line_count > limit:
        yield f"{module.line_count} lines, more than {limit}"


def long_functions(module: Module) -> Iterator[str]:
    """Functions longer than they should be, decorators not counted."""
    for function in module.functions():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        limit = 70 if f"{module.path}:{function.name}" in LONG_FUNCTIONS else FUNCTION_LINES
        if lines > limit:
            yield f"{function.name} has {lines} lines, more than {limit}"


def test_files_are_short() -> None:
    assert offences(long_files, all_modules()) == []


def test_functions_are_short() -> None:
    assert offences(long_functions, all_modules()) == []


def test_every_exception_is_still_needed() -> None:
    by_path = {module.path: module for module in all_modules()}
    assert [path for path in LONG_FILES if by_path[path].line_count <= FILE_LINES] == []
    named = {f"{module.path}:{function.name}" for module in all_modules() for function in module.functions()}
    assert LONG_FUNCTIONS.keys() - named == set()


def test_the_rules_bite() -> None:
    assert offences(long_files, [snippet("x = 1\n" * 401)])
    assert not offences(long_files, [snippet("x = 1\n" * 400)])
    assert offences(long_functions, [snippet("def f():\n" + "    x = 1\n" * 60)])
    assert not offences(long_functions, [snippet("def f():\n" + "    x = 1\n" * 59)])
