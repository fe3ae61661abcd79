"""The stream of a search is NumPy's legacy one: values published for its seeds."""

from tarmac.model.search import ParameterRange, RangeKind
from tarmac.search.space import RandomNumbers, draw


def test_whole_numbers_are_those_of_numpy() -> None:
    numbers = RandomNumbers(42)
    assert [numbers.below(10) for _ in range(12)] == [6, 3, 7, 4, 6, 9, 2, 6, 7, 4, 3, 7]
    large = RandomNumbers(999)
    assert [large.below(2**60 - 10) for _ in range(2)] == [985573361606668636, 507696633659605473]


def test_numbers_of_an_interval_are_those_of_numpy() -> None:
    numbers = RandomNumbers(1)
    assert [numbers.uniform(0, 1) for _ in range(3)] == [
        0.417022004702574,
        0.7203244934421581,
        0.00011437481734488664,
    ]


def test_a_stream_goes_on_where_it_was() -> None:
    numbers = RandomNumbers(7)
    before = [numbers.below(1000) for _ in range(5)]
    again = RandomNumbers(7, numbers.draws)
    assert [again.unit() for _ in range(3)] == [numbers.unit() for _ in range(3)]
    assert len(before) == 5


def test_parameters_are_drawn_in_the_order_of_their_paths() -> None:
    ranges = (
        ParameterRange(path=("z",), kind=RangeKind.UNIFORM, low=0.0, high=1.0),
        ParameterRange(path=("a",), kind=RangeKind.INT, low=0, high=9),
        ParameterRange(path=("n", "x"), kind=RangeKind.CONST, values=("kept",)),
    )
    values, seed = draw(ranges, RandomNumbers(42))
    expected = RandomNumbers(42)
    assert values["a"] == expected.below(10)
    assert values["z"] == expected.unit()
    assert values["n"] == {"x": "kept"}
    expected.skip(4)
    assert seed == expected.below(2**31)
