"""How long runs take, learnt from ended runs: for `estimates`, and for the order of `least_attained`.

`control` keeps one for both, and adds each run that ended. Running times spread over orders of
magnitude, and the best indication is how long a run has lasted already: a prediction is a quantile of the
similar runs that lasted longer. The likeness that predicts best (name, owner, size, used share of the time
limit) differs between clusters, so it is learnt from the runs.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import inf, log

from tarmac.sched.facts import Candidate, requested_slots

ENOUGH = 6
"""The fewest longer runs that make a class usable."""

MOST_SAMPLES = 500
"""The number of latest runs that a class remembers."""

MOST_CLASSES = 2_000
"""The number of classes that are remembered, the latest used."""

LEARNING_SHARE = 0.01
"""The weight of one ended run in the choice of likeness."""

SHORTEST_S = 1.0
"""Shorter runs count as this long in comparisons of running times."""

FIRST_GUESS_SLOT_S = 360.0
"""The least usage that a guess looks ahead: a tenth of a slot-hour."""

BETTER = 0.5
"""How much closer than all runs together, as a logarithm, a likeness predicts that a guess is based on."""

MOST_SHARE = 0.9
"""The largest quantile for runs that outlast all known ones, because their distribution has no upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that ended by itself. `ran_s` is the running time of all its attempts together."""

    owner: str
    project: str
    name: str
    slots: int
    ran_s: float
    time_limit_s: float | None = None


class Likeness(IntEnum):
    """The criteria by which runs are alike, initially the most informative first."""

    LIMIT_BY_OWNER = 0
    LIMIT = 1
    NAME = 2
    OWNER_AND_SLOTS = 3
    OWNER = 4
    SLOTS = 5
    ALL = 6
    USAGE = 7


_BY_LIMIT = frozenset({Likeness.LIMIT_BY_OWNER, Likeness.LIMIT})
"""For these the used share of the time limit is remembered, not seconds. For `USAGE` it is slot-seconds."""

_BY_OWNER = frozenset({Likeness.NAME, Likeness.OWNER_AND_SLOTS, Likeness.OWNER})
"""The bases of a guess that predict better than the usage of all runs, if they do."""

Class = tuple[Likeness, *tuple[str | int, ...]]


class Durations:
    """Learnt running times. One thread at a time adds runs; any others may ask meanwhile."""

    def __init__(self) -> None:
        self._samples: OrderedDict[Class, _Samples] = OrderedDict()
        self._gain = {likeness: 0.01 * (likeness - Likeness.ALL) for likeness in Likeness}
        self._order = sorted(Likeness)

    def __bool__(self) -> bool:
        """Whether any running times are known."""
        return bool(self._samples)

    def add(self, run: Finished) -> None:
        """Add a run that ended."""
        ran_s = max(run.ran_s, SHORTEST_S)
        classes = list(_classes(run.owner, run.project, run.name, run.slots, run.time_limit_s))
        self._learn(ran_s, classes, run.time_limit_s, run.slots)
        for key in classes:
            samples = self._samples.get(key)
            if samples is None:
                samples = self._samples[key] = _Samples()
            self._samples.move_to_end(key)
            samples.add(ran_s / _scale(key[0], run.time_limit_s, run.slots))
        while len(self._samples) > MOST_CLASSES:
            self._samples.popitem(last=False)

    def remaining_s(self, run: Candidate, *, elapsed_s: float = 0.0, share: float = 0.5) -> float | None:
        """How many seconds longer a run takes that has run `elapsed_s`; None if nothing is known.

        The result is the `share` quantile of similar runs that lasted as long (0.5: the median).
        """
        classes = _classes(run.owner, run.project, run.name, requested_slots(run.demands), run.time_limit_s)
        by_likeness = {key[0]: key for key in classes}
        for likeness in self._order:
            samples = self._samples.get(by_likeness[likeness]) if likeness in by_likeness else None
            if samples is None:
                continue
            scale = _scale(likeness, run.time_limit_s, requested_slots(run.demands))
            total = samples.quantile(share, above=elapsed_s / scale)
            if total is not None:
                return max(0.0, total * scale - elapsed_s)
        if not self._samples:
            return None
        share = min(share, MOST_SHARE)
        # No known run lasted as long: assume as long again.
        return max(elapsed_s, SHORTEST_S) * share / (1 - share)

    def guess_slot_s(self, run: Candidate) -> float | None:
        """The slot-seconds that similar runs used per end, from what this run has used; None if unknown.

        It is the least over the amounts that all of them could be allowed, at least twice as much as now (the
        inverse of Gittins' index). If many end soon it is small, even for a run that has used much.
        """
        slots = requested_slots(run.demands)
        classes = {key[0]: key for key in _classes(run.owner, run.project, run.name, slots, None)}
        better = [each for each in self._order if each in _BY_OWNER and self._gain[each] < -BETTER]
        for likeness in (*better, Likeness.USAGE) if slots else ():
            samples = self._samples.get(classes[likeness]) if likeness in classes else None
            unit = slots * _scale(likeness, None, slots)
            found = samples and samples.per_end(run.attained_slot_s / unit, FIRST_GUESS_SLOT_S / unit)
            if found:
                return found * unit
        return None

    def _learn(self, ran_s: float, classes: list[Class], limit_s: float | None, slots: int) -> None:
        """Compare the prediction of each likeness for this run with that of all runs together."""
        errors: dict[Likeness, float] = {}
        for key in classes:
            samples = self._samples.get(key)
            middle = samples.quantile(0.5, above=0.0) if samples is not None else None
            if middle is not None:
                errors[key[0]] = abs(log(middle * _scale(key[0], limit_s, slots) / ran_s))
        baseline = errors.get(Likeness.ALL)
        if baseline is None:
            return
        for likeness, error in errors.items():
            if likeness is not Likeness.ALL:
                self._gain[likeness] += LEARNING_SHARE * (error - baseline - self._gain[likeness])
        self._order = sorted(Likeness, key=lambda likeness: (self._gain[likeness], likeness))


class _Samples:
    """The latest running times of a class, by age and by size.

    `add` replaces the list by size, so that answers in other threads continue with the one they have.
    """

    __slots__ = ("_by_age", "_by_size", "_first")

    def __init__(self) -> None:
        self._by_age: deque[float] = deque()
        self._by_size: list[float] = []
        self._first = (self._by_size, inf, inf)

    def add(self, value: float) -> None:
        by_size = self._by_size.copy()
        if len(self._by_age) == MOST_SAMPLES:
            oldest = self._by_age.popleft()
            del by_size[bisect_left(by_size, oldest)]
        self._by_age.append(value)
        insort(by_size, value)
        self._by_size = by_size

    def quantile(self, share: float, *, above: float) -> float | None:
        """The `share` quantile of the values above `above`; None if there are too few."""
        by_size = self._by_size
        first = bisect_right(by_size, above)
        count = len(by_size) - first
        if count < ENOUGH:
            return None
        return by_size[first + min(int(share * count), count - 1)]

    def per_end(self, above: float, least: float) -> float | None:
        """The least amount that the values above `above` use beyond it per end (None if there are too few).

        All are allowed an equal amount, at least `above` again and `least`. For 0 the answer is remembered.
        """
        by_size, known = self._by_size, self._first
        if not above and known[0] is by_size and known[1] == least:
            return known[2]
        first = bisect_right(by_size, above)
        count = len(by_size) - first
        if count < ENOUGH:
            return None
        used, found = 0.0, inf
        for ended, value in enumerate(by_size[first:], start=1):
            used += value - above
            allowed = max(value - above, above, least)
            found = min(found, (used + (count - ended) * allowed) / ended)
        if not above:
            self._first = (by_size, least, found)
        return found


def _classes(owner: str, project: str, name: str, slots: int, limit_s: float | None) -> Iterator[Class]:
    if limit_s is not None:
        yield Likeness.LIMIT_BY_OWNER, owner
        yield (Likeness.LIMIT,)
    if name:
        yield Likeness.NAME, owner, project, name
    yield Likeness.OWNER_AND_SLOTS, owner, slots
    yield Likeness.OWNER, owner
    yield Likeness.SLOTS, slots
    yield (Likeness.ALL,)
    yield (Likeness.USAGE,)


def _scale(likeness: Likeness, limit_s: float | None, slots: int) -> float:
    if likeness is Likeness.USAGE:
        return 1.0 / max(slots, 1)
    return limit_s if likeness in _BY_LIMIT and limit_s else 1.0
