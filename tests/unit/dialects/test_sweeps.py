"""`--sweep`: a grid over the parameters of a run file."""

from __future__ import annotations

import pytest

from tarmac.dialects.native.sweeps import swept
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.search.space import grid_size
from tarmac.systems.registry import read


def spec_of(parameters: str = "") -> RunSpec:
    text = "command: a\n" + (f"parameters: {parameters}\n" if parameters else "")
    return read(text, filename="run.yaml", directory="/home/ada").spec


@pytest.mark.parametrize(
    ("parameters", "sweep"),
    [
        ("", (("lr", "1e-3,1e-4"), ("seed", "0..2"))),
        ("{lr: 0.1, seed: 0}", (("lr", "1e-3,1e-4"), ("seed", "2..0"))),
        ("{optimizer: {lr: 0.1, kind: adam}, seed: 0}", (("optimizer.lr", "1,2"), ("seed", "0,1,2"))),
    ],
)
def test_a_grid_over_what_is_named(parameters: str, sweep: tuple[tuple[str, str], ...]) -> None:
    found = swept(spec_of(parameters), sweep).search
    assert found is not None
    assert grid_size(found) == 6


def test_a_parameter_that_the_file_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        swept(spec_of("{lr: 0.1, seed: 0}"), (("lt", "1,2"),))
    (problem,) = refused.value.problems
    assert problem.message == "--sweep lt: the file has no such parameter"
    assert problem.hint == "it has lr, seed; add it there if it is new"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("a..b", "--sweep lr: a range is of whole numbers, such as 0..9, and 'a..b' is none"),
        ("0.1..0.5", "--sweep lr: a range is of whole numbers, such as 0..9, and '0.1..0.5' is none"),
        ("1,0..9:0", "--sweep lr: a range is of whole numbers, such as 0..9, and '0..9:0' is none"),
        ("1,2,1", "--sweep lr: 1 stands there twice"),
        ("0..3,2", "--sweep lr: 2 stands there twice"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        swept(spec_of("{lr: 0.1}"), (("lr", values),))
    assert [problem.message for problem in refused.value.problems] == [message]


def test_a_path_with_dots_is_a_value() -> None:
    found = swept(spec_of(), (("data", "../a,../b"),)).search
    assert found is not None
    assert grid_size(found) == 2
