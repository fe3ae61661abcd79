"""Every record of the model to JSON text and back, and what a decoder refuses."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

import tarmac.model
from examples import examples
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.progress import Cause, LogMatch, WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import Command, Environment, Process, Repository, Role, RunSpec, SetupCommand

NOT_STORED = {"AttemptSpan", "Home", "People", "Points", "ReportPiece", "StoredRecord"}
"""Records that never become JSON."""


def records() -> list[type]:
    """Every record of `tarmac.model`."""
    found: dict[str, type] = {}
    for info in pkgutil.walk_packages(tarmac.model.__path__, "tarmac.model."):
        module = importlib.import_module(info.name)
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Struct) and item.__module__ == info.name:
                found[item.__name__] = item
    return [found[name] for name in sorted(found) if name not in NOT_STORED]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
plain = {
    str: st.text(max_size=8),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Any: json_values,
}


@cache
def values(hint: Any, *, longest: int = 3) -> st.SearchStrategy[Any]:
    """Values of a type hint as the model uses them; a record within one has at most one item in each list."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in plain:
        return plain[hint]
    if origin is Annotated:
        return annotated(arguments[0], next(each for each in arguments if isinstance(each, Meta)))
    if origin in (Union, types.UnionType):
        return st.one_of(
            *(st.none() if part is type(None) else values(part, longest=longest) for part in arguments)
        )
    if origin is tuple:
        return st.lists(values(arguments[0], longest=1), max_size=longest).map(tuple)
    if origin is frozenset:
        return st.frozensets(values(arguments[0], longest=1), max_size=longest)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values(arguments[0]), values(arguments[1], longest=1), max_size=longest)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    hints = get_type_hints(hint, include_extras=True)
    return st.builds(hint, **{name: values(hints[name], longest=longest) for name in hint.__struct_fields__})


def annotated(hint: Any, meta: Meta) -> st.SearchStrategy[Any]:
    """Values within the bounds of a hint; a number without any is from 0 to a limit."""
    if meta.pattern is not None:
        return st.from_regex(meta.pattern, fullmatch=True)
    if hint not in (int, float):
        return values(hint)
    least, most = meta.ge or 0, 10**9 if meta.le is None else min(meta.le, 10**9)
    return values(hint).map(lambda number: hint(min(max(abs(number), least), most)))


@pytest.mark.parametrize("record", records(), ids=lambda record: record.__name__)
def test_every_record_comes_back_from_json_as_it_was(record):
    @given(values(record))
    @settings(
        max_examples=examples(50, few=8), deadline=None, suppress_health_check=[HealthCheck.data_too_large]
    )
    def comes_back(item):
        assert decode(record, json.loads(json.dumps(encode(item)))) == item

    comes_back()


@pytest.mark.parametrize("record", records(), ids=lambda record: record.__name__)
def test_tuples_are_of_one_type_and_of_any_length(record):
    """The decoder reads every tuple so; a pair of two types would need another one."""
    for hint in all_hints(record):
        if get_origin(hint) is tuple:
            assert get_args(hint)[1:] == (...,)


def all_hints(record):
    """Every type hint within a record's fields."""
    pending = list(get_type_hints(record).values())
    while pending:
        hint = pending.pop()
        yield hint
        pending += [part for part in get_args(hint) if part is not ...]


def test_defaults_are_left_out():
    assert encode(Resources()) == {}
    assert encode(Resources(slots=2)) == {"slots": 2}
    step = RunSpec(name="n", roles=(), code=Repository(url="u"), setup=(SetupCommand(script="true"),))
    assert encode(step) == {
        "name": "n",
        "roles": (),
        "code": {"type": "repository", "url": "u"},
        "setup": ({"type": "command", "script": "true"},),
    }


def test_records_that_are_answers_are_encoded_whole():
    match = LogMatch(policy="p", node="n1", line="l")
    assert encode(match) == {"policy": "p", "node": "n1", "line": "l", "action": None}


def test_what_is_left_out_takes_its_default():
    assert decode(WorkerPlacement, {"role": "main", "replica": 0, "node": "n1"}) == WorkerPlacement(
        role="main", replica=0, node="n1"
    )


def test_a_whole_number_is_a_float_where_one_is_wanted():
    cpus = decode(Resources, {"cpus": 2}).cpus
    assert (cpus, type(cpus)) == (2.0, float)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Resources, [], "Resources: an object is expected, not list []"),
        (Resources, {"slots": "2"}, "Resources.slots: a whole number is expected, not str '2'"),
        (Resources, {"slots": True}, "Resources.slots: a whole number is expected, not bool True"),
        (Resources, {"slots": 2.0}, "Resources.slots: a whole number is expected, not float 2.0"),
        (Resources, {"cpus": False}, "Resources.cpus: a number is expected, not bool False"),
        (Resources, {"slot": 1}, "Resources: unknown key 'slot'"),
        (WorkerPlacement, {"role": "main", "node": "n1"}, "WorkerPlacement: 'replica' is missing"),
        (
            Allocation,
            {"cluster": "local", "placements": {}},
            "Allocation.placements: a list is expected, not dict {}",
        ),
        (
            Allocation,
            {"cluster": "local", "placements": [{"role": "a", "replica": 0, "node": "n"}, 7]},
            "Allocation.placements[1]: an object is expected, not int 7",
        ),
        (Environment, {"variables": {"A": 1}}, "Environment.variables[...]: Expected `str`, got `int`"),
        (Environment, {"variables": []}, "Environment.variables: an object is expected, not list []"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_path_to_it(kind, value, said):
    with pytest.raises(InvalidInput) as error:
        decode(kind, value)
    assert str(error.value) == said


def test_an_unknown_word_is_refused():
    with pytest.raises(InvalidInput, match=r"Cause\.code: Invalid enum value 'boredom'"):
        decode(Cause, {"code": "boredom", "message": ""})


def test_nested_records_and_their_defaults():
    spec = RunSpec(name="digits", roles=(Role(processes=(Process(command=Command(script="true")),)),))
    encoded = {"name": "digits", "roles": [{"processes": [{"command": {"script": "true"}}]}]}
    assert json.loads(json.dumps(encode(spec))) == encoded
    assert decode(RunSpec, encoded) == spec


AT_ONCE = """
import sys, threading
from msgspec import defstruct
from tarmac.model.codec import decode

sys.setswitchinterval(1e-6)
for number in range(40):
    parts = [defstruct(f"Part{number}_{part}", [(f"f{n}", int, 0) for n in range(20)]) for part in range(20)]
    fields = [(f"p{part}", tuple[parts[part], ...] | None, None) for part in range(20)]
    kind, begin = defstruct(f"Whole{number}", fields), threading.Barrier(8)

    def read():
        begin.wait()
        assert decode(kind, {"p3": [{"f1": 2}]}).p3[0].f1 == 2

    threads = [threading.Thread(target=read) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_many_threads_decode_a_record_for_the_first_time_at_once() -> None:
    """msgspec 0.22 crashes the process where two threads read the fields of a type at once."""
    result = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
