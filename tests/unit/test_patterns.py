"""No pattern takes long, whatever text it meets: what users write reaches most of them.

Every pattern of the package meets texts made of what it looks for, with the methods it is called by.
A pattern whose cost grows with the square of the text takes seconds here, and a linear one a millisecond.
"""

from __future__ import annotations

import ast
import gc
import itertools
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import tarmac

LENGTH = 20_000
LIMIT_S = 0.5
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")

USED = re.compile(rf"\.({'|'.join(METHODS)})\b")
ROOT = Path(tarmac.__path__[0])

SHORT = {
    "artifacts.versions.quiescence._NUMBERED": "the name of a file: 255 bytes",
    r"cli.views.amounts.findall(([\d.]+)([smhd]))": "only what is a duration, as the pattern before it says",
}
"""Patterns that no long text of another shape reaches, and why."""


@dataclass(frozen=True)
class Found:
    """A compiled pattern, where it stands, and how it is used."""

    name: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    methods: frozenset[str]


class TooSlow(BaseException):
    """The time of one text is over."""


@cache
def patterns(package: str) -> Sequence[Found]:
    """The patterns of a package: those with a name, and those that are written where they are used."""
    found: list[Found] = []
    for module, tree in _modules(package):
        found += [*_named(module, _uses(tree)), *_unnamed(module, tree)]
    return found


def _named(module: str, uses: Mapping[str, set[str]]) -> Iterator[Found]:
    if module.endswith(("__main__", ".env")) or ".versions.v0" in module:
        return
    if module.startswith("tarmac.engines.ray.far."):
        return  # it is imported beside a Ray alone
    for name, value in vars(import_module(module)).items():
        if isinstance(value, re.Pattern) and (methods := uses.get(name)):
            yield Found(f"{module.removeprefix('tarmac.')}.{name}", value, frozenset(methods))


def _unnamed(module: str, tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        method, source = node.func.attr, node.args[0]
        of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if of_re and method in METHODS and isinstance(source, ast.Constant):
            flags = re.ASCII if "re.ASCII" in ast.unparse(node) else 0
            name = f"{module.removeprefix('tarmac.')}.{method}({source.value})"
            yield Found(name, re.compile(source.value, flags), frozenset({method}))


def _modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of a package that use one of the methods; others are not parsed."""
    for path in sorted(ROOT.joinpath(package).rglob("*.py")) if package else sorted(ROOT.glob("*.py")):
        text = path.read_text()
        if USED.search(text):
            module = ".".join(("tarmac", *path.relative_to(ROOT).with_suffix("").parts))
            yield module.removesuffix(".__init__"), ast.parse(text)


def _uses(tree: ast.Module) -> Mapping[str, set[str]]:
    """By name, the methods that a module calls on it."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
            names.setdefault(node.value.id, set()).add(node.attr)
    return names


def texts(source: str) -> Iterator[str]:
    """Long texts out of what a pattern looks for, each with an end that spoils a match."""
    literal = [*dict.fromkeys(one for one in source if not one.isalnum() and one not in "()[]?*+|^${}\\")][:8]
    single = [
        *dict.fromkeys(
            [*literal, "a", "0", "A", "_", " ", "\n", "-", ".", "/", '"', "'", "\\", "[", "$", "@", ":"]
        )
    ]
    words = re.findall(r"[A-Za-z_]{2,}", source)[:3]
    pairs = [one + other for one, other in itertools.permutations([*literal[:3], "a"], 2)]
    for unit in (*single, *pairs, *words, *(f"{word} " for word in words), *(f"{word}=" for word in words)):
        body = (unit * (LENGTH // len(unit) + 1))[:LENGTH]
        yield body + "\0"
        yield "a" + body + "!"


def seconds_over(call: Callable[[], object]) -> bool:
    """Whether a call takes longer than it may."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        call()
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return False


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    def over(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, over)
    gc.disable()  # a collection of all that the suite holds takes as long as a slow pattern
    yield
    gc.enable()
    signal.signal(signal.SIGVTALRM, before)


PACKAGES = ["", *sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))]


def test_the_patterns_are_found() -> None:
    found = {one.name for package in PACKAGES for one in patterns(package)}
    assert len(found) > 150
    assert set(SHORT) <= found, "a pattern that is gone needs no excuse"


@pytest.mark.heavy
@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_holds_a_pattern_up(package: str) -> None:
    assert not [slow for found in patterns(package) if found.name not in SHORT for slow in _slow_uses(found)]


def _slow_uses(found: Found) -> Iterator[str]:
    source = found.pattern.pattern
    for text in texts(source if isinstance(source, str) else source.decode("latin-1")):
        given = text if isinstance(source, str) else text.encode("latin-1", "replace")
        for method in found.methods:
            called = getattr(found.pattern, method)
            arguments = ("", given) if method == "sub" else (given,)
            if seconds_over(lambda called=called, arguments=arguments: _used(called(*arguments))):
                yield f"{method} of {found.name} takes more than {LIMIT_S} s for {text[:12]!r}..."
                return


def _used(result: object) -> None:
    if isinstance(result, Iterator):
        for _ in result:
            pass
