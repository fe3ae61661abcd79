"""TOML to a located tree: what the standard library reads, with the places of keys and values."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.dialects.located import Items, Node, Problems, Scalar, Table
from tarmac.dialects.toml_tree import MOST_PARTS, compose

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
    ("text", "place"),
    [
        ("a = 08\nb = 1", "1:5"),
        ("a = foo\nb = bar\n", "1:5"),
        ("a = 'x\nb = 1\nb = 2", "1:5"),
        ("a = [1,\n 2\nb = c", "3:1"),
        ('a = """x\nb = 1\n\\q\n"""\nc = ', "3:1"),
        ("a = '''x\nb = c\n", "1:5"),
        ("a: 1\n= 2\n", "1:2"),
        ("a = 1\nb = 2\na = 2\n", "3:1"),
        ("a = 1 b = 2\nc = d", "1:7"),
        ("a = \x07", "1:5"),
        ("a = '", "1:5"),
        ("b = 1\na", "2:2"),
        (".".join("a" * (MOST_PARTS + 2)) + " = 1", "1:1"),
        ("a = " + "[" * 5000, "None:None"),
    ],
)
def test_the_first_mistake_has_its_place(text: str, place: str) -> None:
    problems = Problems("f")
    assert compose(text, problems) is None
    assert [f"{found.line}:{found.column}" for found in problems.found] == [place], problems.found


def test_keys_values_and_members_of_lists_have_their_places() -> None:
    text = """# a comment = 1
a = [ "x,", # one
  'y' ]
"b" = 3
b2.c = {d = "="}
e = \"\"\"
[f]
\"\"\"
[[ g ]]
a = 5
"""
    tree = compose(text, Problems("f"))
    assert tree is not None
    found = [
        (key.text, f"{key.line}:{key.column}", f"{node.line}:{node.column}") for key, node in tree.entries
    ]
    assert found == [
        ("a", "2:1", "2:5"),
        ("b", "4:1", "4:7"),
        ("b2", "5:1", "5:8"),
        ("e", "6:1", "6:5"),
        ("g", "9:4", "9:4"),
    ]
    listed = tree.entries[0][1]
    assert isinstance(listed, Items)
    assert [f"{item.line}:{item.column}" for item in listed.items] == ["2:7", "3:3"]


def test_the_keys_of_a_table_have_their_places() -> None:
    tree = compose('[a]\nb = 1\n\n["x.y"]  # ours\n  c.d = 2\ne = [\n3]\n[z.k]\nf = 4\n', Problems("f"))
    assert tree is not None
    found = {
        f"{table.text}.{key.text}": f"{key.line}:{key.column} {value.line}:{value.column}"
        for table, inner in tree.entries
        for key, value in (inner.entries if isinstance(inner, Table) else ())
    }
    assert found == {"a.b": "2:1 2:5", "x.y.c": "5:3 5:9", "x.y.e": "6:1 6:5", "z.k": "8:2 8:2"}


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
