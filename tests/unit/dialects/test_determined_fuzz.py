"""Whatever the configuration: a spec that survives a round trip and completes a launch, or InvalidInput."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.dialects.schema import Alternatives, ListOf, MapOf, Record, Shape
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.determined.schema import Union
from tarmac.systems.registry import read


def words(shape: Shape) -> Iterator[str]:
    """Every key that the table knows."""
    match shape:
        case Record():
            for name, rule in shape.fields.items():
                yield name
                yield from words(rule.shape)
        case Union():
            for word, case in shape.cases.items():
                yield from (shape.key, word)
                yield from words(case)
        case ListOf() | MapOf():
            yield from words(shape.item)
        case Alternatives():
            for inner in (shape.items, shape.table):
                if inner is not None:
                    yield from words(inner)


WORDS = sorted({*words(EXPERIMENT), "type", "minval", "maxval", "vals", "val", "base", "count"})
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["1e-4", "single", "int", "log", "/a", "A=B", "4g", "", "~", "a b", "a:b", "x\x00"]),
    st.text(max_size=10),
)
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=15,
)
FILES = st.dictionaries(st.sampled_from(sorted(EXPERIMENT.fields)), TREES, max_size=7)
WHOLE = {"entrypoint": "true", "searcher": {"name": "single", "metric": "loss"}}


def outcome(source: str) -> None:
    """Read the text, and look at what comes of it."""
    try:
        reading = read(source, filename="fuzz.yaml", directory="/home/ada", dialect="determined")
    except InvalidInput as refusal:
        problems = refusal.problems
    else:
        stored = json.loads(json.dumps(encode(reading.spec)))
        assert decode(RunSpec, stored) == reading.spec
        return
    assert problems
    assert all(problem.file == "fuzz.yaml" and problem.message for problem in problems)
    assert all(str(problem).isprintable() for problem in problems)


@given(st.text())
def test_any_text_as_a_configuration(source: str) -> None:
    """D9: a text gives a spec or problems, never a traceback."""
    outcome(source)
    outcome(f"entrypoint: {source}")


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(150))
@given(FILES)
def test_any_tree_of_known_keys(tree: dict[str, Any]) -> None:
    outcome(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False))
    outcome(yaml.safe_dump({**tree, **WHOLE}, allow_unicode=True, sort_keys=False))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(150))
@given(TREES)
def test_any_value_of_one_section(tree: Any) -> None:
    for name in ("hyperparameters", "environment", "resources", "checkpoint_storage", "bind_mounts"):
        outcome(yaml.safe_dump({**WHOLE, name: tree}, allow_unicode=True))
