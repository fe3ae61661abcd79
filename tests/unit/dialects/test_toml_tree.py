"""TOML to a located tree: what the standard library reads, with the place of all, past every mistake."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.dialects.located import Items, Node, Scalar, Table
from tarmac.dialects.problems import Problems
from tarmac.dialects.toml_tree import DEEPEST, compose

PIECES = st.lists(
    st.sampled_from(
        [
            *"ab_-.=[]{},#\"'\\ \t\n\r0123456789+:TZxobe",
            '"""',
            "'''",
            "[[",
            "]]",
            "true",
            "inf",
            "1979-05-27",
            "a = ",
            "b.c=",
            "\n[a]\n",
            "\n[[b]]\n",
            "\\u00e9",
            "\\U00110000",
            "é",
            "\0",
            "1_000",
            "0xff",
        ]
    ),
    max_size=40,
).map("".join)
KEYS = st.text("abcé .\"'\n", max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=12), st.integers(-(10**9), 10**9), st.booleans()
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(PIECES)
def test_whatever_the_standard_library_reads_is_read_alike(text: str) -> None:
    problems = Problems("f")
    tree = compose(text, problems)
    try:
        wanted = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return
    assert not problems, problems.found
    assert tree is not None
    assert alike(tree, wanted), (tree, wanted)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_is_written_is_read_back(values: dict[str, Any]) -> None:
    text = "\n".join(f"{quoted(key)} = {written(value)}" for key, value in values.items())
    problems = Problems("f")
    tree = compose(text, problems)
    assert not problems
    assert tree is not None
    assert alike(tree, values)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a = 08\nb = 1", ["1:5"]),
        ("a = foo\nb = bar\n", ["1:5", "2:5"]),
        ("a = 'x\nb = 1\nb = 2", ["1:5", "3:1"]),
        ("a = [1,\n 2\nb = c", ["3:1", "3:5"]),
        ('a = """x\nb = 1\n\\q\n"""\nc = ', ["3:1", "5:5"]),
        ("a = '''x\nb = c\n", ["1:5"]),
        ("a: 1\n= 2\n[b\nc = 1\n[b]\nc = 2\n[b]", ["1:2", "3:3", "7:2"]),
        ("a = 1\na.b = 2\n[a]\n", ["2:1", "3:2"]),
        ('a = "\\ud800"', ["1:6"]),
        ("a = 1 b = 2\nc = d", ["1:7", "2:5"]),
        ("a = {b = 1, b = 2}", ["1:13"]),
        ("a = \x07", ["1:5"]),
        ("a = " + "[" * (DEEPEST + 2), [f"1:{5 + DEEPEST + 1}"]),
        (".".join("a" * (DEEPEST + 1)) + " = 1", [f"1:{2 * DEEPEST + 1}"]),
    ],
)
def test_every_mistake_has_its_place(text: str, places: list[str]) -> None:
    problems = Problems("f")
    compose(text, problems)
    assert [f"{found.line}:{found.column}" for found in problems.found] == places, problems.found


def alike(node: Node, wanted: Any) -> bool:
    """Whether a tree says what the standard library has read, and every part of it has a place."""
    if node.line is None or node.column is None:
        return False
    if isinstance(node, Table):
        return (
            isinstance(wanted, dict)
            and [key.text for key, _ in node.entries] == list(wanted)
            and all(alike(value, wanted[key.text]) for key, value in node.entries)
        )
    if isinstance(node, Items):
        return (
            isinstance(wanted, list)
            and len(node.items) == len(wanted)
            and all(map(alike, node.items, wanted))
        )
    return scalar(node, wanted)


def scalar(node: Scalar, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return node.quoted and node.text == wanted
    if isinstance(wanted, bool):
        return node.text == str(wanted).lower()
    if isinstance(wanted, int):
        return int(node.text) == wanted
    if isinstance(wanted, float):
        return float(node.text) == wanted or wanted != wanted
    return not node.quoted  # a date


def written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {written(item)}" for key, item in value.items()) + "}"
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    return '"' + "".join(one if one.isalnum() else f"\\U{ord(one):08x}" for one in text) + '"'
