"""Determined's published searches, table by table: what each trial is asked for under given metrics (D10).

A table has one line for each trial, in the order in which they begin: its metric, the lengths at which it
reports, and `!` where it fails instead of its last report. Lengths are absolute. Reports come in the order in
which they were asked for. What is published of rungs and brackets is in `test_rungs`.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

import pytest

from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchMode, SearchSpec
from tarmac.search.moves import Create, Ended, Event, Finish, GoOn, Stop, TrialEnd, Validation
from tarmac.search.rungs import brackets_of
from tarmac.search.searching import Search
from tarmac.search.space import RandomSampler, grid_size

ASHA: dict[str, Any] = {
    "method": SearchMethod.ASHA,
    "num_rungs": 3,
    "max_time": 9000,
    "max_trials": 12,
    "divisor": 3.0,
}
ADAPTIVE: dict[str, Any] = {
    "method": SearchMethod.ADAPTIVE_ASHA,
    "max_time": 900,
    "max_trials": 5,
    "max_rungs": 2,
    "divisor": 3.0,
    "max_concurrent_trials": 5,
}
PROMOTED, STOPPED = {"promotion": True}, {"max_concurrent_trials": 3}
MAXIMISED = {"smaller_is_better": False}
HUNDREDTHS = [number / 100 for number in range(1, 13)]


class Played:
    """A search with trials that report what a table says; the state is kept and restored at every event."""

    def __init__(self, spec: SearchSpec, metrics: list[float], fails: dict[int, int] | None = None) -> None:
        self.spec, self.metrics, self.fails = spec, metrics, fails or {}
        self.search = Search(spec)
        self.asked: dict[int, list[int]] = {}
        self.due: deque[tuple[int, int]] = deque()
        self.finished = False
        self.carry_out(self.search.begin())
        while self.due:
            self.report(*self.due.popleft())

    def report(self, trial: int, length: int) -> None:
        self.asked[trial].append(length)
        if self.fails.get(trial) == length:
            self.tell(Ended(trial, TrialEnd.FAILED))
            return
        stopped = self.tell(Validation(trial, length, self.metrics[trial - 1]))
        longer = [each for each in self.lengths(trial) if each > length]
        if trial not in stopped and longer:
            self.due.append((trial, longer[0]))
        elif trial not in stopped and not self.spec.promotion:
            self.tell(Ended(trial, TrialEnd.COMPLETED))

    def lengths(self, trial: int) -> tuple[int, ...]:
        """Where a trial reports that is not told how far to go: at every rung of its bracket."""
        if self.spec.promotion or self.spec.method not in (SearchMethod.ASHA, SearchMethod.ADAPTIVE_ASHA):
            return ()
        starts: Counter[int] = Counter()
        for bracket in brackets_of(self.spec):
            starts[sum(starts.values())] = bracket.concurrent
            if trial <= sum(starts.values()):
                return bracket.lengths
        return brackets_of(self.spec)[0].lengths

    def tell(self, event: Event) -> set[int]:
        self.search = Search(self.spec, json.loads(json.dumps(self.search.state)))
        return self.carry_out(self.search.handle(event))

    def carry_out(self, operations: list[Any]) -> set[int]:
        stopped = set()
        for operation in operations:
            match operation:
                case Create(trial=trial, length=length):
                    self.asked[trial] = []
                    self.due.append((trial, length or self.lengths(trial)[0]))
                case GoOn(trial=trial, length=length):
                    self.due.append((trial, length))
                case Stop(trial=trial):
                    stopped.add(trial)
                case Finish():
                    self.finished = True
        for trial in stopped:
            self.tell(Ended(trial, TrialEnd.STOPPED))
        return stopped


def table(*lines: str) -> tuple[list[float], dict[int, int], list[list[int]]]:
    """The metrics of a table, where its trials fail, and what they are asked for."""
    rows = [line.rstrip("!").split() for line in lines]
    lengths = [[int(each) for each in row[1:]] for row in rows]
    fails = {at + 1: lengths[at][-1] for at, line in enumerate(lines) if line.endswith("!")}
    return [float(row[0]) for row in rows], fails, lengths


def lines(metrics: list[float], *lengths: str) -> list[str]:
    """The lines of a table: the last lengths are those of all that follow."""
    every = [*lengths, *[lengths[-1]] * (len(metrics) - len(lengths))]
    return [f"{metric:.2f} {each}" for metric, each in zip(metrics, every, strict=True)]


THREE, TWO, ONE = "1000 3000 9000", "1000 3000", "1000"
DESCENDING = HUNDREDTHS[::-1]
ROUND = [0.01, 0.02, 0.03, 0.04] * 3
PROMOTIONS = [THREE, TWO, TWO, TWO, ONE]
BETTER = ["0.1 300 900", "0.2 300", "0.3 300", "0.4 900", "0.5 900"]
WORSE = ["0.5 300 900", "0.4 300", "0.3 300", "0.2 900", "0.1 900"]
ALL_ON = ["0.1 300 900", "0.2 300 900", "0.3 300 900", "0.4 900", "0.5 900"]


def failing(rows: list[str], at: int, lengths: str = "") -> list[str]:
    """The same where the trial at this place fails, after these lengths."""
    metric, _, usual = rows[at].partition(" ")
    return [*rows[:at], f"{metric} {lengths or usual}!", *rows[at + 1 :]]


ROUND_ON = [THREE, THREE, THREE, THREE, ONE, ONE, TWO, THREE, ONE, ONE, TWO, THREE]
ROUND_FAILS = [THREE, THREE, THREE, TWO, ONE, ONE, THREE, THREE, ONE, ONE, THREE, THREE]
ASYNC = ["0.10 1000 3000", "0.11 1000", "0.12 1000!", *lines(HUNDREDTHS[:9], *PROMOTIONS)]

PLAYED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "asha": (ASHA | PROMOTED, lines(HUNDREDTHS, *PROMOTIONS)),
    "asha, failing": (ASHA | PROMOTED, failing(lines(HUNDREDTHS, *PROMOTIONS), 2)),
    "asha, maximised": (ASHA | PROMOTED | MAXIMISED, lines(DESCENDING, *PROMOTIONS)),
    "asha, maximised, failing": (ASHA | PROMOTED | MAXIMISED, failing(lines(DESCENDING, *PROMOTIONS), 2)),
    "asha, promoted late": (ASHA | PROMOTED, ASYNC),
    "asha, one rung": (
        ASHA | PROMOTED | {"num_rungs": 1, "max_trials": 4},
        lines([0.05, 0.06, 0.07, 0.08], "9000"),
    ),
    "stopping": (ASHA | STOPPED, lines(HUNDREDTHS, THREE, ONE)),
    "stopping, in rounds": (ASHA | STOPPED, lines(ROUND, *[THREE, ONE, ONE, ONE] * 3)),
    "stopping, maximised": (ASHA | STOPPED | MAXIMISED, lines(HUNDREDTHS, THREE)),
    "stopping, maximised, in rounds": (ASHA | STOPPED | MAXIMISED, lines(ROUND, *ROUND_ON)),
    "stopping, in rounds, failing": (
        ASHA | STOPPED,
        failing(lines(ROUND, *[THREE, ONE, ONE, ONE] * 3), 4, TWO),
    ),
    "stopping, maximised, in rounds, failing": (
        ASHA | STOPPED | MAXIMISED,
        failing(lines(ROUND, *ROUND_FAILS), 3),
    ),
    "stopping, one rung": (
        ASHA | STOPPED | {"num_rungs": 1, "max_trials": 4},
        lines([0.05, 0.06, 0.07, 0.08], "9000"),
    ),
    "adaptive": (ADAPTIVE | PROMOTED, BETTER),
    "adaptive, failing": (ADAPTIVE | PROMOTED, failing(BETTER, 1)),
    "adaptive, maximised": (ADAPTIVE | PROMOTED | MAXIMISED, WORSE),
    "adaptive, maximised, failing": (ADAPTIVE | PROMOTED | MAXIMISED, failing(WORSE, 1)),
    "adaptive, stopping": (ADAPTIVE, BETTER),
    "adaptive, stopping, failing": (ADAPTIVE, failing(BETTER, 1)),
    "adaptive, stopping, maximised": (ADAPTIVE | MAXIMISED, ALL_ON),
    "adaptive, stopping, maximised, failing": (ADAPTIVE | MAXIMISED, failing(ALL_ON, 1, "300")),
}


@pytest.mark.parametrize("name", PLAYED)
def test_a_halving_search_asks_trials_for_what_determined_asks(name: str) -> None:
    fields, rows = PLAYED[name]
    metrics, fails, expected = table(*rows)
    played = Played(SearchSpec(**fields), metrics, fails)
    assert [played.asked[trial] for trial in sorted(played.asked)] == expected
    assert played.finished


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (576_000, (64_000, 192_000, 576_000)),
        (9000, (1000, 3000, 9000)),
        (12, (1, 4, 12)),
    ],
)
@pytest.mark.parametrize("promotion", [True, False], ids=["promoted", "stopped"])
def test_a_search_in_any_unit(longest: int, expected: tuple[int, ...], *, promotion: bool) -> None:
    """Equal metrics: of twelve trials the first four are promoted, and one of them again."""
    spec = SearchSpec(**ASHA | {"max_time": longest, "promotion": promotion, "max_concurrent_trials": 0})
    played = Played(spec, [1.0] * 12 if promotion else HUNDREDTHS)
    found = sorted(played.asked.values(), key=len)
    far, middle = (1, 3) if promotion else (1, 0)
    assert found == [
        *[list(expected[:1])] * (12 - far - middle),
        *[list(expected[:2])] * middle,
        *[list(expected)] * far,
    ]


def test_of_ten_trials_that_get_worse_only_the_first_goes_to_the_end() -> None:
    spec = SearchSpec(**ASHA | {"max_time": 900, "max_trials": 10, "max_concurrent_trials": 3})
    played = Played(spec, [2.0 + trial for trial in range(10)])
    assert list(played.asked.values()) == [[100, 300, 900], *[[100]] * 9]


def doubles(*counts: int) -> tuple[ParameterRange, ...]:
    """A parameter from -1 to 1 for each count of points."""
    return tuple(
        ParameterRange(path=(str(at),), kind=RangeKind.UNIFORM, low=-1.0, high=1.0, count=count)
        for at, count in enumerate(counts)
    )


def whole(low: int, high: int, count: int, *path: str) -> ParameterRange:
    return ParameterRange(path=path or ("1",), kind=RangeKind.INT, low=low, high=high, count=count)


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (doubles(1), 1),
        (doubles(4), 4),
        (doubles(1, 4), 4),
        (doubles(3, 4), 12),
        (doubles(2, 3, 4), 24),
        (doubles(2, 2, 3, 3, 4, 5), 720),
        ((ParameterRange(path=("u",), kind=RangeKind.UNIFORM, low=0.0, high=2.0, count=5),), 5),
        ((whole(0, 20, 7),), 7),
        ((ParameterRange(path=("l",), kind=RangeKind.LOG, low=-3.0, high=-2.0, count=2),), 2),
        ((ParameterRange(path=("c",), kind=RangeKind.CHOICE, values=(1, 2, 3)),), 3),
        ((ParameterRange(path=("c",), kind=RangeKind.CONST, values=(3,)),), 1),
    ],
)
def test_the_size_of_a_grid(space: tuple[ParameterRange, ...], size: int) -> None:
    assert grid_size(SearchSpec(method=SearchMethod.GRID, space=space)) == size


PAIRS = [(one, two) for one in (0, 10, 20) for two in (0, 5, 10)]


@pytest.mark.parametrize(
    ("space", "points"),
    [
        ((whole(0, 20, 3, "1"), whole(0, 10, 3, "2")), [{"1": one, "2": two} for one, two in PAIRS]),
        (
            (whole(0, 20, 3, "1"), whole(0, 10, 3, "2", "3")),
            [{"1": one, "2": {"3": two}} for one, two in PAIRS],
        ),
        ((whole(0, 4, 5),), [{"1": each} for each in range(5)]),
        ((whole(-4, -2, 3),), [{"1": -4}, {"1": -3}, {"1": -2}]),
    ],
    ids=["two", "nested", "as many as there are", "negative"],
)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_points_of_a_grid_are_tried_from_the_last(
    space: tuple[ParameterRange, ...], points: list[dict[str, Any]], most: int
) -> None:
    """Determined lists the points of a grid in the order of their names, and takes trials from the end."""
    spec = SearchSpec(
        method=SearchMethod.GRID, space=space, max_concurrent_trials=most, max_time=1, reverse=True
    )
    search = Search(spec)
    operations = list(search.begin())
    tried = []
    for operation in operations:
        if isinstance(operation, Create):
            tried.append(operation.parameters)
            operations += search.handle(Ended(operation.trial, TrialEnd.COMPLETED))
    assert tried == points[::-1]


@pytest.mark.parametrize(
    ("fields", "count", "length", "fails"),
    [
        ({"method": SearchMethod.GRID, "space": doubles(2, 1, 3), "max_time": 19_200}, 6, 19_200, None),
        ({"method": SearchMethod.GRID, "space": doubles(2, 1, 3), "max_time": 300}, 6, 300, None),
        ({"method": SearchMethod.GRID, "space": doubles(2, 1, 3), "max_time": 3}, 6, 3, None),
        (
            {
                "method": SearchMethod.GRID,
                "space": doubles(2, 1, 3),
                "max_time": 300,
                "max_concurrent_trials": 2,
            },
            6,
            300,
            6,
        ),
        ({"method": SearchMethod.RANDOM, "max_trials": 4, "max_time": 19_200}, 4, 19_200, None),
        ({"method": SearchMethod.RANDOM, "max_trials": 4, "max_time": 300}, 4, 300, None),
        (
            {"method": SearchMethod.RANDOM, "max_trials": 4, "max_time": 500, "max_concurrent_trials": 2},
            4,
            500,
            4,
        ),
        ({"method": SearchMethod.RANDOM, "max_trials": 4, "max_time": 32_017}, 4, 32_017, None),
        ({"method": SearchMethod.SINGLE, "max_time": 500}, 1, 500, None),
    ],
)
def test_a_search_that_ends_nothing_early(
    fields: dict[str, Any], count: int, length: int, fails: int | None
) -> None:
    played = Played(SearchSpec(**fields), [0.1] * count, {fails: length} if fails else None)
    assert list(played.asked.values()) == [[length]] * count
    assert played.finished


def test_brackets_begin_one_after_the_other() -> None:
    fields = ADAPTIVE | PROMOTED | {"bracket_rungs": (2, 1), "max_time": 900, "max_trials": 5, "divisor": 3.0}
    search = Search(SearchSpec(**fields | {"max_concurrent_trials": 5}))
    begun = [each.length for each in search.begin() if isinstance(each, Create)]
    assert begun == [300, 300, 300, 900, 900]


@pytest.mark.parametrize(
    "fields",
    [
        {"method": SearchMethod.RANDOM, "max_trials": 4, "max_time": 300},
        {"method": SearchMethod.RANDOM, "max_trials": 10, "max_time": 800},
        ADAPTIVE
        | PROMOTED
        | {
            "mode": SearchMode.AGGRESSIVE,
            "max_time": 6400,
            "max_trials": 128,
            "divisor": 4.0,
            "max_rungs": 3,
        },
    ],
)
def test_a_search_with_the_same_seed_is_the_same(fields: dict[str, Any]) -> None:
    spec = SearchSpec(**fields | {"seed": 17, "space": doubles(1, 1)})
    one, other = (Played(spec, [1.0] * 128) for _ in range(2))
    assert one.asked == other.asked
    assert one.search.state == other.search.state


NESTED = tuple(
    ParameterRange(path=("optimizer", name), kind=RangeKind.CONST, values=(value,))
    for name, value in (("type", "adam"), ("learning_rate", 0.01), ("momentum", 0.9))
)


def test_nested_values_are_drawn_as_they_are() -> None:
    drawn, _ = RandomSampler(SearchSpec(method=SearchMethod.RANDOM, space=NESTED)).draw(1)
    assert drawn == {"optimizer": {"type": "adam", "learning_rate": 0.01, "momentum": 0.9}}


def test_values_are_drawn_the_same_from_the_same_seed() -> None:
    space = (
        ParameterRange(path=("cat",), kind=RangeKind.CHOICE, values=tuple(range(7))),
        ParameterRange(path=("const",), kind=RangeKind.CONST, values=("val",)),
        ParameterRange(path=("double",), kind=RangeKind.UNIFORM, low=0.0, high=100.0),
        ParameterRange(path=("int",), kind=RangeKind.INT, low=0, high=100),
        ParameterRange(path=("log",), kind=RangeKind.LOG, low=-2.0, high=2.0),
    )
    for seed in range(50):
        specs = [
            SearchSpec(method=SearchMethod.RANDOM, seed=seed, space=each) for each in (space, space[::-1])
        ]
        one, other = ([sampler.draw(1), sampler.draw(2)] for sampler in map(RandomSampler, specs))
        assert one == other, "in whatever order the file has them"
