"""Measures of the package that may only fall. Run by `make check`.

A change that lowers a measure lowers its limit here, in the same commit. A change that has to raise one says
why in its message.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from source_tree import ROOT, Module, package_modules, snippet

CODE_LINES = {
    "": 75,
    "api": 1181,
    "artifacts": 4692,
    "cli": 7753,
    "client": 1826,
    "control": 8279,
    "dialects": 3674,
    "engines": 9880,
    "launch": 991,
    "model": 3098,
    "node": 12096,
    "providers": 505,
    "samplers": 214,
    "sched": 5619,
    "search": 574,
    "server": 8225,
    "simulator": 1589,
    "store": 3174,
    "systems": 10814,
    "vault": 609,
}
"""Lines with code, by package: neither blank, nor comment, nor docstring. A new package gets a line."""

MIRRORED_RECORDS = 61
"""Classes that repeat the fields of another one (see `mirrored`)."""

MARKED_DOCSTRINGS = 28
MARKED_SENTENCES = 6
"""Docstrings, and sentences of the pages, with a turn of phrase that plain English avoids."""

_LEAST_FIELDS = 4
_LEAST_SHARE = 0.6
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
}
_TURNS = re.compile(
    r"(?:^|[.:;] )(?:what|who|whoever|whose|where|which)\b[^?]*?(?:[.;:]|$)"  # a relative as the subject
    r"|\b(?:is|are|was|were|be) (?:told|said)\b"
    r"|\b(?:goes|go|went|going) on\b"
    r"|\b(?:stands|stand|stood|lies|lie) (?:there|in|on|beside|below|behind|before)\b"
    r"|\bso many\b|\bas it is\b|\bnobody\b|\bsomebody\b|\bnevertheless\b|, too\b",
    re.IGNORECASE,
)


def code_lines(module: Module) -> int:
    """How many lines of a module have code."""
    prose = {line for text in docstrings(module) for line in range(text.lineno, (text.end_lineno or 0) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    found = {line for each in tokens if each.type not in _NO_CODE for line in _lines(each)}
    return len(found - prose)


def _lines(token: tokenize.TokenInfo) -> range:
    return range(token.start[0], token.end[0] + 1)


def docstrings(module: Module) -> Iterator[ast.Constant]:
    """The docstrings of a module, its classes and functions."""
    for node in module.nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def mirrored(modules: tuple[Module, ...]) -> set[str]:
    """Classes that share four fields, and three fifths of the smaller one's, with another class."""
    records = {
        f"{module.name}:{node.name}": fields
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and len(fields := _fields(node)) >= _LEAST_FIELDS
    }
    return {
        name
        for one, other in combinations(records, 2)
        for name in (one, other)
        if (shared := len(records[one] & records[other])) >= _LEAST_FIELDS
        and shared >= _LEAST_SHARE * min(len(records[one]), len(records[other]))
    }


def _fields(node: ast.ClassDef) -> frozenset[str]:
    return frozenset(
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )


def marked(texts: Iterator[str]) -> int:
    """How many texts have a turn of phrase that plain English avoids."""
    return sum(_TURNS.search(" ".join(text.split())) is not None for text in texts)


def sentences() -> Iterator[str]:
    """The sentences of the README and the pages, without code, tables and headings."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "decisions" in page.parts:
            continue
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield from re.split(r"(?<=[.!?])\s+", re.sub(r"^[|#].*$", "", prose, flags=re.MULTILINE))


def test_no_package_grows() -> None:
    found: Counter[str] = Counter()
    for module in package_modules():
        found[module.package] += code_lines(module)
    assert {name: lines for name, lines in found.items() if lines > CODE_LINES.get(name, 0)} == {}


def test_no_more_records_repeat_another() -> None:
    found = mirrored(package_modules())
    assert len(found) <= MIRRORED_RECORDS, sorted(found)


def test_prose_gets_no_worse() -> None:
    texts = (str(text.value) for module in package_modules() for text in docstrings(module))
    assert marked(texts) <= MARKED_DOCSTRINGS
    assert marked(sentences()) <= MARKED_SENTENCES


def test_the_measures_measure() -> None:
    assert code_lines(snippet('"""One.\n\nTwo.\n"""\n\n# three\nx = (\n    1\n)\n')) == 3
    one = "class A:\n    a: int\n    b: int\n    c: int\n    d: int\n"
    assert mirrored((snippet(one + one.replace("A", "B")),)) == {
        "tarmac.sample.thing:A",
        "tarmac.sample.thing:B",
    }
    assert not mirrored((snippet(one + one.replace("A", "B").replace("d:", "e:")),))
    assert marked(iter(["Where it lies is told.", "The store writes the run.", "A run goes on."])) == 2
