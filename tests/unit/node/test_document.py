"""attempt.json: what is written is what is read, and nothing else is taken for it."""

from __future__ import annotations

import collections.abc
import json
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.node.attempt.document import Launch, NodeLaunch, Unreadable, read_document, to_json
from tarmac.node.attempt.records import Malformed, reader

PLAIN = {
    str: st.text(max_size=8),
    int: st.integers(-(2**40), 2**40),
    float: st.floats(-1e12, 1e12),
    bool: st.booleans(),
    type(None): st.none(),
}

WHOLE = {
    "protocol": 1,
    "attempt_id": "r1.1",
    "number": 1,
    "token": "t",
    "nodes": [
        {"node": "n1", "rank": 0, "workers": [{"role": "r", "replica": 0, "worker": 0, "argv": ["a"]}]}
    ],
}

read = reader(Launch)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a field may have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        return st.one_of([values(each) for each in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is collections.abc.Mapping:
        return st.dictionaries(st.text(max_size=8), values(arguments[1]), max_size=2)
    if hasattr(hint, "_fields"):
        fields = {name: values(of) for name, of in get_type_hints(hint).items()}
        if "kind" in fields:
            fields["kind"] = st.just(hint._field_defaults["kind"])
        return st.builds(hint, **fields)
    return PLAIN[hint]


@given(document=values(Launch))
def test_what_is_written_is_read(document: Launch) -> None:
    assert read(json.loads(json.dumps(to_json(document)))) == document


def test_what_is_as_by_default_is_left_out() -> None:
    document = Launch("r1.1", number=1, token="t", nodes=(NodeLaunch("n1", 0, ()),))
    nodes = [{"node": "n1", "rank": 0, "workers": []}]
    told = {"protocol": 1, "attempt_id": "r1.1", "number": 1, "token": "t", "nodes": nodes}
    assert json.loads(json.dumps(to_json(document))) == told


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"number": "1"}, "number: a whole number is expected"),
        ({"number": True}, "number: a whole number is expected"),
        ({"grace_s": float("nan")}, "grace_s: a number is expected"),
        ({"nodes": {}}, "nodes: a list is expected"),
        ({"nodes": [{"node": "n1", "rank": 0}]}, "nodes: 'workers' is missing"),
        ({"setup": [["pip"]]}, "setup: an object of a kind is expected (command, checkout, pip, apt)"),
        ({"setup": [{"kind": ["apt"]}]}, "setup: an object of a kind is expected"),
        ({"setup_env": {"A": 1}}, "setup_env: a text is expected"),
        ({"own_packages": 1}, "own_packages: true or false is expected"),
    ],
)
def test_what_is_of_another_type_is_refused_by_name(change: dict[str, Any], text: str) -> None:
    with pytest.raises(Malformed) as refused:
        read({**WHOLE, **change})
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a" * 101])
def test_a_node_whose_name_is_no_name_of_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "attempt.json"
    path.write_text(json.dumps({**WHOLE, "nodes": [{"node": name, "rank": 0, "workers": []}]}))
    with pytest.raises(Unreadable, match="is no name of a node"):
        read_document(str(path))
