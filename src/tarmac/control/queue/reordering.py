"""Checks a list of queue changes one after another on a draft, then makes steps from it.

Called by `queueing`. Nothing is applied here: an invalid change raises `Refused`, and the draft continues
with the next one, so that all problems of a list are reported together.
"""

from bisect import insort
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from tarmac.control.decisions import steps
from tarmac.model.changes import RunStep
from tarmac.model.cluster import Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import Refused, suggestion
from tarmac.model.lifecycle import Mode, RunEvent, RunState, sources
from tarmac.model.run import QueuePosition, Run

PoolKey = tuple[str, str]

AFTER_LAST_S = 1e-3
"""The distance of a run behind the last one if the place of the last one is in the future."""

_BATCH = frozenset({Mode.BATCH, Mode.BURST})


Stand = tuple[Run, PoolKey]
"""A live run and the pool whose queue it is in."""


class Draft:
    """The queues after the changes so far.

    `misfit` returns why a pool could never hold a run (None: it could); `names` are for messages, by run id.
    """

    def __init__(
        self,
        positions: Mapping[str, Stand],
        rules: Mapping[PoolKey, Pool],
        misfit: Callable[[Run, PoolKey], str | None],
        names: Mapping[str, str],
        now: float,
    ) -> None:
        movable = sources(RunEvent.REORDERED)
        self._runs = {run_id: run for run_id, (run, _) in positions.items() if run.state in movable}
        self._pools = {run_id: pool for run_id, (_, pool) in positions.items()}
        self._places = {run_id: run.place for run_id, (run, _) in positions.items()}
        self._rules = rules
        self._misfit = misfit
        self._names = names
        self._now = now
        self._lines: dict[tuple[PoolKey, Mode], list[Run]] = {}

    def set_priority(self, run: Run, priority: int) -> None:
        """Set the priority at the run's position; its current priority resets the position."""
        self._check(run)
        self._check_policy(run, Policy.PRIORITY, "a priority")
        before = self._places[run.id]
        self._put(run, priority=priority, position=before.position if priority != before.priority else None)

    def set_weight(self, run: Run, weight: float) -> None:
        """Set the weight in a fair share."""
        self._check(run)
        self._check_policy(run, Policy.FAIR_SHARE, "a weight")
        if not 0.0 < weight < float("inf"):
            raise Refused(f"a weight is more than 0, not {weight:g}")
        self._put(run, weight=weight)

    def set_pool(self, run: Run, name: str) -> None:
        """Move the run to another pool of its cluster."""
        self._check(run)
        if run.spec.rehearsal is not None:
            raise Refused(f"{self._named(run)} rehearses on a cluster of its own: it has no other pool")
        cluster, before = self._pools[run.id]
        if name == before:
            return
        if (cluster, name) not in self._rules:
            known = sorted(pool for of, pool in self._rules if of == cluster)
            hint = suggestion(name, known, f"its pools: {', '.join(known)}")
            raise Refused(f"cluster {cluster} has no pool {name!r}", hint=hint)
        if (why_not := self._misfit(run, (cluster, name))) is not None:
            raise Refused(f"pool {name} could never hold {self._named(run)}: {why_not}")
        self._put(run, pool=name, position=None)
        self._pools[run.id] = cluster, name
        self._lines.clear()

    def move(self, run: Run, anchor: Run, *, behind: bool) -> None:
        """Move the run directly ahead of another run of its pool, or behind it, with the priority of that
        run.
        """
        self._check(run)
        self._check(anchor)
        if run.id == anchor.id:
            return
        self._check_same_pool(run, anchor)
        self._check_moves(run)
        if _line(run) != _line(anchor):
            raise Refused(
                f"{self._named(run)} is a {run.spec.mode} run and {self._named(anchor)} {_a(anchor)}: "
                "each kind has a line of its own"
            )
        priority = self._places[anchor.id].priority
        order = [
            other
            for other in self._ordered(run)
            if other.id != run.id and (_cycle(run) or self._places[other.id].priority == priority)
        ]
        at = next(index for index, other in enumerate(order) if other.id == anchor.id) + behind
        self._insert(run, order, at, priority)

    def top(self, run: Run) -> None:
        """Move the run ahead of the first waiting run in its line."""
        self._check(run)
        self._check_moves(run)
        waiting = [
            other
            for other in self._ordered(run)
            if other.state is RunState.QUEUED and _line(other) == _line(run)
        ]
        if waiting and waiting[0].id != run.id:
            self.move(run, waiting[0], behind=False)

    def steps(self) -> list[RunStep]:
        """The changes, one step for each run whose place has changed."""
        return [
            steps.reordered(run, after, _differences(run.place, after), self._now)
            for run_id, run in self._runs.items()
            if (after := self._places[run_id]) != run.place
        ]

    def _check(self, run: Run) -> None:
        if run.id not in self._runs:
            state = "has ended" if run.state is RunState.ENDED else f"is {run.state}"
            waits = "; its cluster's own queue orders it" if run.state is RunState.SUBMITTED else ""
            raise Refused(f"{self._named(run)} {state}: it has no place in the queue{waits}")

    def _check_policy(self, run: Run, required: Policy, what: str) -> None:
        """Check that the new setting applies to this run at all."""
        self._check_batch(run)
        pool = self._pools[run.id]
        policy = self._policy(pool)
        if policy is required:
            return
        counts, hint = {
            Policy.PRIORITY: ("orders by priority", "--priority N counts"),
            Policy.FAIR_SHARE: ("shares fairly, by weight", "--weight N counts"),
            Policy.LEAST_ATTAINED: ("runs first what ran least", None),
        }[policy]
        raise Refused(f"pool {pool[1]} {counts}: {what} does not count there", hint=hint)

    def _check_same_pool(self, run: Run, anchor: Run) -> None:
        (cluster, pool), (other_cluster, other_pool) = self._pools[run.id], self._pools[anchor.id]
        if cluster != other_cluster:
            raise Refused(
                f"{self._named(run)} is on cluster {cluster} and {self._named(anchor)} on {other_cluster}: "
                "there is no place between clusters"
            )
        if pool != other_pool:
            raise Refused(
                f"{self._named(run)} is in pool {pool} and {self._named(anchor)} in pool {other_pool}: "
                "there is no place between pools",
                hint=f"move it to pool {other_pool} first",
            )

    def _check_moves(self, run: Run) -> None:
        if _cycle(run):
            return
        self._check_batch(run)
        pool = self._pools[run.id]
        if self._policy(pool) is Policy.FAIR_SHARE:
            raise Refused(
                f"pool {pool[1]} shares fairly: who used least is first, and no run has a place of its own",
                hint="--weight N counts",
            )
        if self._policy(pool) is Policy.LEAST_ATTAINED:
            raise Refused(f"pool {pool[1]} runs first what ran least: no run has a place of its own")

    def _check_batch(self, run: Run) -> None:
        if run.spec.mode is Mode.CYCLE:
            raise Refused(
                f"{self._named(run)} is a cycle run: it has its turns in a line of their own, ahead of others"
            )
        if run.spec.mode is Mode.INTERRUPTIBLE:
            raise Refused(
                f"{self._named(run)} is interruptible: such runs share their pool by time, not by place"
            )

    def _policy(self, pool: PoolKey) -> Policy:
        rules = self._rules.get(pool)
        return rules.policy if rules is not None else Policy.PRIORITY

    def _named(self, run: Run) -> str:
        return self._names.get(run.id, f"{run.name} ({run.id})")

    def _put(self, run: Run, **fields: Any) -> None:
        self._places[run.id] = replace(self._places[run.id], **fields)
        self._lines.pop(self._line_of(run), None)

    def _line_of(self, run: Run) -> tuple[PoolKey, Mode]:
        return self._pools[run.id], _line(run)

    def _ordered(self, run: Run) -> list[Run]:
        """The runs of its line in its pool, in order; like `sched.order`. Cached until one of them moves."""
        where = self._line_of(run)
        if where not in self._lines:
            mates = [other for other in self._runs.values() if self._line_of(other) == where]
            self._lines[where] = sorted(mates, key=self._key)
        return self._lines[where]

    def _key(self, run: Run) -> tuple[float, float, float, str]:
        priority = 0 if _cycle(run) else -self._places[run.id].priority
        return priority, self._at(run), _own_place(run), run.id

    def _at(self, run: Run) -> float:
        position = self._places[run.id].position
        return _own_place(run) if position is None else position

    def _insert(self, run: Run, order: list[Run], at: int, priority: int) -> None:
        """Give the run a position before `order[at]`; if there is no room, move others a little."""
        row = [*order[:at], run, *order[at:]]
        first = last = at
        while True:
            low = self._at(row[first - 1]) if first else None
            high = self._at(row[last + 1]) if last + 1 < len(row) else None
            places = self._between(low, high, last - first + 1)
            if places is not None:
                break
            wider = last - first + 1
            first, last = max(0, first - wider), min(len(row) - 1, last + wider)
        line = [other for other in self._ordered(run) if other.id != run.id]
        for other, position in zip(row[first : last + 1], places, strict=True):
            self._put(other, position=position)
        if not _cycle(run):
            self._put(run, priority=priority)
        insort(line, run, key=self._key)  # the other runs keep their places
        self._lines[self._line_of(run)] = line

    def _between(self, low: float | None, high: float | None, count: int) -> list[float] | None:
        """This number of places in a row between two others; None if there is no room for them."""
        if low is None:
            low = (high if high is not None else self._now) - count - 1.0
        if high is None:  # behind the last, and before all later submissions
            high = self._now if self._now > low else low + AFTER_LAST_S
        step = (high - low) / (count + 1)
        places = [low + step * number for number in range(1, count + 1)]
        row = [low, *places, high]
        return places if all(one < following for one, following in pairwise(row)) else None


def _differences(before: QueuePosition, after: QueuePosition) -> dict[str, Any]:
    names = ("priority", "weight", "position", "pool")
    return {name: getattr(after, name) for name in names if getattr(before, name) != getattr(after, name)}


def _line(run: Run) -> Mode:
    return Mode.BATCH if run.spec.mode in _BATCH else run.spec.mode


def _cycle(run: Run) -> bool:
    return run.spec.mode is Mode.CYCLE


def _own_place(run: Run) -> float:
    """The place of a run before a person gives it another."""
    return run.queued_at if _cycle(run) and run.queued_at is not None else run.created_at


def _a(run: Run) -> str:
    return f"an {run.spec.mode} run" if run.spec.mode is Mode.INTERRUPTIBLE else f"a {run.spec.mode} run"
