"""Holds the facts of the scheduler: its ledger, the usage, and the estimator. Owned by `control_state`.

The ledger has its own lock, and the lock of the control state is held only during the transfer of changes: a
long plan delays no submission. A holder of the lock of the control state must not ask the scheduler.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from time import thread_time
from typing import NamedTuple, TypeVar

from tarmac import sched
from tarmac.control.state.limit_state import LimitFacts
from tarmac.control.state.run_cache import Change
from tarmac.model.changes import HOUR_S, RunStep, UsageBucket, usage_of
from tarmac.model.cluster import Node, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.ports import Store
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery

T = TypeVar("T")

News = tuple[tuple[Pool, ...], tuple[Node, ...], Iterable[Change], Iterable[UsageBucket], LimitFacts]
"""All current pools, nodes and limits, and the changes of runs and usage since the last call."""


_LEARNT = 1000
"""The number of last ended runs that are learnt at the start, and the most that await a request."""

_NOT_ITS_OWN = frozenset(
    {CauseCode.NEVER_FITS, CauseCode.BUSY, CauseCode.CODE_UNREADABLE, CauseCode.PLATFORM_FAULT}
)


HALF_LIVES = 10
"""The number of half-lives after which usage counts less than a thousandth, and is not read."""

_LATE_S = 2 * HOUR_S
"""The maximum time between usage and the end of its attempt: usage counts by the hour, and clocks differ."""

_Key = tuple[float, str, str, str, str, str]


class UsageBook:
    """The usage known to this server, by its key, and additions since the last `take`. Use it under a lock.

    It is read once, then updated with the commits of this server. If another server has ended attempts, the
    affected hours are read again, and the difference is that server's addition.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, float] = {}
        self._since: float | None = None
        self._added: list[UsageBucket] = []

    def load(self, store: Store, since: float) -> None:
        """Read everything from `since` on, unless it is known already."""
        if self._since is None or since < self._since:
            self._compare(store.usage(since))
            self._since = since

    def note(self, steps: Iterable[RunStep]) -> None:
        """Record the usage of steps that were just committed."""
        if self._since is None:
            return  # nothing is known yet: it will be read
        for step in steps:
            bucket = usage_of(step)
            if bucket is not None:
                self._known[bucket.key] = self._known.get(bucket.key, 0.0) + bucket.slot_s
                self._added.append(bucket)

    def catch_up(self, store: Store, since: float) -> None:
        """Record usage from other servers for attempts that ended at `since` or later."""
        if self._since is not None:
            self._compare(store.usage(max(self._since, since - _LATE_S)))

    def take(self) -> list[UsageBucket]:
        """The additions since the last call."""
        added, self._added = self._added, []
        return added

    def _compare(self, stored: Iterable[UsageBucket]) -> None:
        for bucket in stored:
            more_slot_s = bucket.slot_s - self._known.get(bucket.key, 0.0)
            if more_slot_s > 1e-6 * bucket.slot_s:  # sums in another order differ by less
                self._known[bucket.key] = bucket.slot_s
                self._added.append(replace(bucket, slot_s=more_slot_s))


SLOW_S = 0.05
"""The processor time of a simulation from which on answers do not wait for it."""

_SHALLOW = 500
"""The number of runs at the head of queues up to which an answer waits for a first simulation."""

_PAUSES = 10
"""The time between two of these simulations, in times of one."""


class _Expected(NamedTuple):
    """Estimates for the first runs of queues, when they were made, and how long that took."""

    found: Mapping[str, sched.Estimate] = {}
    at: float = 0.0
    took_s: float = 0.0


class Estimator:
    """Estimates the starts of queued runs from the durations of ended ones; may be used by any thread.

    Its lock is held only while runs are learnt: an estimate takes longer than a plan, and delays neither
    plans nor submissions.
    """

    def __init__(
        self, store: Store, *, wake: Callable[[], None], slow_s: float = SLOW_S, known: bool = False
    ) -> None:
        """`wake` asks for a call of `renew` soon. A simulation is slow from `slow_s` on.

        `known`: the store has no ended runs but those that will be noted.
        """
        self._store, self._wake, self._slow_s = store, wake, slow_s
        self._lock = threading.Lock()
        self._durations = sched.Durations() if known else None
        self._unlearnt: deque[Run] = deque(maxlen=_LEARNT)
        self._expected, self._due = _Expected(), 0

    def note(self, runs: Iterable[Run]) -> None:
        """Record runs that have just ended; they are learnt on request."""
        self._unlearnt.extend(runs)

    def durations(self) -> sched.Durations:
        """The durations of the runs that ended so far; the first call reads those of the store."""
        with self._lock:
            if self._durations is None:
                self._unlearnt.clear()  # they are among those that are read
                self._unlearnt.extendleft(self._ended())
                self._durations = sched.Durations()
            while self._unlearnt:
                finished = _finished_of(self._unlearnt.popleft())
                if finished is not None:
                    self._durations.add(finished)
            return self._durations

    def _ended(self) -> Iterable[Run]:
        """The last ended runs, newest first."""
        query = RunQuery(states=frozenset({RunState.ENDED}), limit=_LEARNT)
        ids = [summary.id for summary in self._store.runs(query)]
        found = self._store.load_runs(ids)
        return [found[run_id] for run_id in ids if run_id in found]

    def estimates(self, scope: sched.Scope, now: float) -> Mapping[str, sched.Estimate]:
        """The likely start of each requested run of the scope."""
        return sched.estimates(scope, now, durations=self.durations())

    def first_estimates(
        self, run_ids: Collection[str], scope: Callable[[int], sched.Scope], depth: int, now: float
    ) -> Mapping[str, sched.Estimate]:
        """The likely starts of these runs, which are among the first `depth` of their queues.

        `scope` returns the scope of a number of runs. If a simulation is slow, these are the last known
        estimates, and new ones are made for the next call.
        """
        expected = self._expected
        if expected.took_s < self._slow_s and depth <= _SHALLOW:
            return self._make(scope(depth), now)
        old = now - expected.at > _PAUSES * expected.took_s
        if old or not expected.found.keys() >= set(run_ids):
            self._due = max(self._due, depth)
            self._wake()
        return expected.found

    def renew(self, scope: Callable[[int], sched.Scope], now: float) -> None:
        """Make new estimates, if an answer asked for these; the first call reads the ended runs."""
        self.durations()
        depth, self._due = self._due, 0
        if depth:
            self._make(scope(depth), now)

    def _make(self, scope: sched.Scope, now: float) -> Mapping[str, sched.Estimate]:
        began_s = thread_time()
        found = self.estimates(scope, now)
        self._expected = _Expected(found, now, thread_time() - began_s)
        return found


def _finished_of(run: Run) -> sched.Finished | None:
    """The duration data of an ended run; None if it has none."""
    by_itself = run.outcome in (Outcome.COMPLETED, Outcome.FAILED)
    if not by_itself or run.started_at is None or run.ended_at is None or run.spec.mode is Mode.CYCLE:
        return None
    if run.cause is not None and run.cause.code in _NOT_ITS_OWN:
        return None
    slots = run.spec.slots
    return sched.Finished(
        owner=run.user,
        project=run.project,
        name=run.name,
        slots=slots,
        ran_s=run.attained_slot_s / slots if slots else run.ended_at - run.started_at,
        time_limit_s=run.spec.time_limit_s,
    )


class SchedulerState:
    """The ledger and its lock; `news` returns the changes and is called under that lock.

    By `durations`, batch runs get a guess of their usage when they are queued, if a pool orders by usage.
    """

    def __init__(
        self,
        news: Callable[[], News],
        ledger: sched.Ledger | None = None,
        durations: Callable[[], sched.Durations] = sched.Durations,
    ) -> None:
        self._news, self._durations = news, durations
        self._lock = threading.Lock()
        self._ledger = ledger if ledger is not None else sched.Ledger()
        self._cluster: tuple[tuple[Pool, ...], tuple[Node, ...]] | None = None
        self._idle: sched.Plan | None = None  # the last plan, if it decided nothing and no fact has changed

    def plan(self, now: float) -> sched.Plan:
        """The plan at `now`; quick if nothing changed and no decision is due."""
        with self._lock:
            if not self._take_news() and self._idle is not None:
                due_at = self._idle.next_at
                if due_at is None or now < due_at:
                    return self._idle
            decided = self._ledger.plan(now)
            nothing = not (decided.placements or decided.preemptions or decided.refusals or decided.shares)
            self._idle = decided if nothing else None
            return decided

    def ask(self, question: Callable[[sched.Ledger], T]) -> T:
        """The answer to a question about the current facts, which it must not change."""
        with self._lock:
            if self._take_news():
                self._idle = None
            return question(self._ledger)

    def snapshot(self) -> sched.Snapshot:
        """All current facts as a value."""
        return self.ask(sched.Ledger.snapshot)

    def _take_news(self) -> bool:
        """Update the ledger; returns whether anything changed."""
        pools, nodes, changes, usage, limits = self._news()
        ledger, fresh = self._ledger, list[sched.Candidate]()
        queue = fresh.append if self._cluster is None else ledger.queue  # those of the first call are many
        changed = ledger.set_limits(*limits)
        if (pools, nodes) != self._cluster:  # the same objects, while none of them changes
            self._cluster = pools, nodes
            ledger.set_cluster(pools, nodes)
            changed = True
        by_usage = any(pool.policy is Policy.LEAST_ATTAINED for pool in pools)
        for run_id, fact in changes:
            changed = True
            if fact is None:
                ledger.forget(run_id)
            elif isinstance(fact, sched.Candidate):
                queue(self._guessed(fact) if by_usage else fact)
            elif by_usage:
                ledger.hold(replace(fact, candidate=self._guessed(fact.candidate)))
            else:
                ledger.hold(fact)
        ledger.queue_all(fresh)
        if added := list(usage):
            ledger.add_usage(added)
            changed = True
        return changed

    def _guessed(self, run: sched.Candidate) -> sched.Candidate:
        """The run with a guess of its usage, the same until it has used more in an attempt."""
        if run.time_limit_s is not None or run.mode is not Mode.BATCH:
            return run
        known = self._ledger.known(run.run_id)
        if known is not None and known.attained_slot_s == run.attained_slot_s:
            return replace(run, guess_slot_s=known.guess_slot_s)
        return replace(run, guess_slot_s=self._durations().guess_slot_s(run))
