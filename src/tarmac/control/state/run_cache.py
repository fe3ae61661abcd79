"""The live runs in memory: the input of the passes, updated instead of read again.

Owned by `ControlState`, which calls it under its lock. Every change by this process is cached when it is
committed; changes by other servers on the same database arrive through the feed. The cache records changed
runs for the scheduler's facts (`scheduler_state`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from tarmac.control.decisions.notifications import LongWaits, SubscriptionsOf
from tarmac.control.decisions.steps import ASKS
from tarmac.control.state.delegated_order import DelegatedOrder, place_of
from tarmac.control.state.engines import Engines
from tarmac.control.state.facts import Shape, Shapes, candidate_of, holding_of
from tarmac.control.state.group_limits import GroupLimits
from tarmac.model.changes import RunStep
from tarmac.model.cluster import BURST_PREFIX
from tarmac.model.lifecycle import OCCUPYING_STATES, TERMINAL_STATES, AttemptState, RunState
from tarmac.model.ports import Store
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Target
from tarmac.sched import Candidate, Holding

Change = tuple[str, Candidate | Holding | None]
"""A changed run and its form for the scheduler: queued, holding, or nothing."""


class _Waiters:
    """An index by awaited run, so that an end concerns only the runs that waited for it."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, None]] = {}
        self._awaited: dict[str, tuple[str, ...]] = {}

    def note(self, run: Run) -> None:
        """Record the current state of a run."""
        waits = run.dependencies and run.state is RunState.QUEUED
        awaited = tuple(each.run_id for each in run.awaits) if waits else ()
        if awaited == self._awaited.get(run.id, ()):
            return
        self.forget(run.id)
        if awaited:
            self._awaited[run.id] = awaited
        for run_id in awaited:
            self._of.setdefault(run_id, {})[run.id] = None

    def forget(self, run_id: str) -> None:
        """The run waits no more."""
        for awaited in self._awaited.pop(run_id, ()):
            waiting = self._of[awaited]
            del waiting[run_id]
            if not waiting:
                del self._of[awaited]

    def of_others(self, is_live: Callable[[str], bool]) -> Mapping[str, tuple[str, ...]]:
        """The awaited runs and arrays without live members here, each with its waiters."""
        return {run_id: tuple(waiting) for run_id, waiting in self._of.items() if not is_live(run_id)}


class RunCache:
    """Live runs and their live attempts by run id.

    `undelivered` are those with a possible delivery to their engine, by cluster; `masters` the promised ports
    by first node and run. `foreign_ends_since` is the earliest possible time of attempt ends recorded by
    others, since it was last taken. Runs of another server than `server` are left out. `for_delegates` are
    the queued runs for clusters that place runs themselves, by cluster, and `delegated` is the order of all
    runs there; `waiters` those that may not start before others end; `long_waits` those with subscriptions to
    long waits; `members` the number of members of each array in each state.
    """

    def __init__(
        self, shapes: Shapes, server: str, engines: Engines, subscriptions_of: SubscriptionsOf
    ) -> None:
        self._server = server
        self._engines = engines
        self.for_delegates: dict[str, dict[str, Run]] = {}
        self.delegated = DelegatedOrder()
        self.waiters = _Waiters()
        self.long_waits = LongWaits(subscriptions_of)
        self.limits = GroupLimits()
        self.members: dict[str, Counter[RunState]] = {}
        self.runs: dict[str, Run] = {}
        self.attempts: dict[str, Attempt] = {}
        self.pending: dict[str, Run] = {}
        self.rehearsals: dict[str, Run] = {}
        self.undelivered: dict[str, dict[str, None]] = {}
        self.masters: dict[str, dict[str, int]] = {}
        self.foreign_ends_since: float | None = None
        self._own_ends: set[str] = set()
        self._last_event_id: int | None = None
        self._changed: dict[str, None] = {}
        self._fact_ids: set[str] = set()
        self.rented: frozenset[str] = frozenset()
        self._known_shapes = shapes
        self._shapes: dict[str, Shape] = {}

    def refresh(self, store: Store, check: Callable[[], None]) -> None:
        """Cache changes by others; on the first call, read everything.

        `check` raises an error that must stop this server, after the news were read and before they apply.
        """
        if self._last_event_id is None:
            self._last_event_id = store.last_event_id()  # before the runs: changes in between are read twice
            attempts = {attempt.run_id: attempt for attempt in store.live_attempts()}
            for run in store.live_runs():
                self.take(run, attempts.get(run.id))
            return
        news: set[str] = set()
        first_at: float | None = None
        while events := store.feed(after_id=self._last_event_id):
            check()
            self._last_event_id = events[-1].id
            first_at = events[0].at if first_at is None else first_at
            for event in events:
                known = self.runs.get(event.run_id)
                if event.state in TERMINAL_STATES:
                    news.discard(event.run_id)
                    if event.run_id not in self._own_ends:
                        self._note_foreign_end(event.run_id, first_at)
                    self._drop(event.run_id)
                elif known is None:
                    if event.run_id not in self._own_ends:
                        news.add(event.run_id)
                elif known.seq < event.seq:
                    news.add(event.run_id)
        self._own_ends.clear()
        self.reload(store, news)

    def reload(self, store: Store, run_ids: Iterable[str]) -> None:
        """Read these runs again."""
        ids = sorted(set(run_ids))
        found = store.load_runs(ids) if ids else {}
        for run_id in ids:
            run = found.get(run_id)
            before = self.runs.get(run_id)
            if run is None:
                self._drop(run_id)
                continue
            if before is not None and before.attained_slot_s != run.attained_slot_s:
                self._note_foreign_end(run_id, before.created_at)
            attempts = store.attempts(run_id) if run.state in OCCUPYING_STATES else []
            self.take(run, attempts[-1] if attempts else None)

    def absorb(self, step: RunStep) -> bool:
        """Cache a step that was just committed; False if its attempt is unknown here: read the run."""
        after, attempt = step.after, step.attempt or self.attempts.get(step.after.id)
        if after.server != self._server:
            return True
        if after.state in OCCUPYING_STATES and (attempt is None or attempt.number != after.attempt):
            return False
        self.take(after, attempt)
        return True

    def take(self, run: Run, attempt: Attempt | None) -> None:
        """Cache a run in its current state, with its newest attempt if it has one."""
        run_id = run.id
        if run.server != self._server:
            return
        if run.state in TERMINAL_STATES:
            self._own_ends.add(run_id)
            self._drop(run_id)
            return
        self._changed[run_id] = None
        self._count_member(self.runs.get(run_id), run)
        self.runs[run_id] = run
        if run.spec.rehearsal is not None:
            self.rehearsals[run_id] = run
        if run.state is RunState.PENDING:
            self.pending[run_id] = run
        else:
            self.pending.pop(run_id, None)
        self.waiters.note(run)
        self.long_waits.note(run)
        if attempt is not None and attempt.state is not AttemptState.ENDED:
            self._hold(run, attempt)
        else:
            self._release(run_id)
        self._note_for_delegate(run)
        if _has_group(run):  # the actions of others in their group decide whether runs may start
            self._changed |= dict.fromkeys(self.limits.note(run, active=run_id in self.attempts))

    def note_rented(self, clusters: Iterable[str]) -> None:
        """Record the clusters that are rented for single runs now: only these runs may use them."""
        rented = frozenset(name for name in clusters if name.startswith(BURST_PREFIX))
        for name in self.rented ^ rented:
            run_id = name.removeprefix(BURST_PREFIX)
            self._shapes.pop(run_id, None)
            if run_id in self.runs:
                self._changed[run_id] = None
        self.rented = rented

    def is_live(self, identifier: str) -> bool:
        """Whether a run, or any member of an array, has not ended."""
        return identifier in self.runs or identifier in self.members

    def live_members(self, array_id: str) -> int:
        """The number of members of an array that have not ended."""
        return sum(self.members.get(array_id, {}).values())

    def _count_member(self, before: Run | None, after: Run | None) -> None:
        """Count a run of an array in its current state."""
        for run, added in ((after, 1), (before, -1)):
            if run is not None and run.array_id is not None:
                counts = self.members.setdefault(run.array_id, Counter())
                counts[run.state] += added
                if not any(counts.values()):
                    del self.members[run.array_id]

    def note_delivered(self, run_id: str) -> None:
        """Record that the engine of a run has its full state."""
        attempt = self.attempts.get(run_id)
        if attempt is not None:
            self._forget_delivery(run_id, attempt)

    def changes(self) -> Iterator[Change]:
        """Every run that changed since the last call, in the order of the changes."""
        changed, self._changed = self._changed, {}
        for run_id in changed:
            fact = self._fact(run_id)
            if fact is not None:
                self._fact_ids.add(run_id)
            elif run_id in self._fact_ids:
                self._fact_ids.discard(run_id)
            else:
                continue  # the scheduler never knew it
            yield run_id, fact

    def _note_for_delegate(self, run: Run) -> None:
        """Put a run at its place. A cluster and its queues do not change while a run waits there."""
        attempt, waits = self.attempts.get(run.id), run.state is RunState.QUEUED
        if not self._delegated(run, attempt):
            return
        waiting = self.for_delegates.setdefault(run.spec.target.cluster or "", {})
        if waits:
            waiting[run.id] = run
        else:
            waiting.pop(run.id, None)
        engine = self._engines.delegate_of(run.spec.target.cluster)
        place = place_of(run, attempt, engine) if waits or attempt is not None else None
        self.delegated.put(run.id, place)

    def _hold(self, run: Run, attempt: Attempt) -> None:
        before = self.attempts.get(run.id)
        if before is None or before.number != attempt.number:
            self._release(run.id)
            if attempt.master_port is not None:
                self.masters.setdefault(attempt.allocation.first_node, {})[run.id] = attempt.master_port
        self.attempts[run.id] = attempt
        if attempt.is_to_be_submitted or run.state in ASKS:
            self.undelivered.setdefault(attempt.allocation.cluster, {})[run.id] = None

    def _forget_delivery(self, run_id: str, attempt: Attempt) -> None:
        cluster = attempt.allocation.cluster
        waiting = self.undelivered.get(cluster)
        if waiting is not None:
            waiting.pop(run_id, None)
            if not waiting:
                del self.undelivered[cluster]

    def _note_foreign_end(self, run_id: str, at: float) -> None:
        """An attempt of this run ended; for a formerly unknown run, `at` is a time before that end."""
        run, attempt = self.runs.get(run_id), self.attempts.get(run_id)
        began_at = attempt.created_at if attempt is not None else run.created_at if run is not None else at
        self.foreign_ends_since = min(began_at, self.foreign_ends_since or began_at)

    def _release(self, run_id: str) -> None:
        attempt = self.attempts.pop(run_id, None)
        if attempt is not None:
            self._forget_delivery(run_id, attempt)
            if attempt.master_port is None:
                return
            promised = self.masters[attempt.allocation.first_node]
            del promised[run_id]
            if not promised:
                del self.masters[attempt.allocation.first_node]

    def _fact(self, run_id: str) -> Candidate | Holding | None:
        run, attempt = self.runs.get(run_id), self.attempts.get(run_id)
        if run is None or self._delegated(run, attempt):
            return None
        if attempt is not None:
            return holding_of(run, attempt, self._shape(run))
        cluster = run.spec.target.cluster or ""
        if run.state is not RunState.QUEUED:
            return None
        if cluster.startswith(BURST_PREFIX) and cluster not in self.rented:
            return None  # it waits until machines are rented for it
        over_limit = self.limits.holds_back(run.id) if _has_group(run) else None
        return candidate_of(run, self._shape(run), over_limit=over_limit)

    def _delegated(self, run: Run, attempt: Attempt | None) -> bool:
        """Whether the run is for the queue of a cluster, not for the scheduler."""
        if self._engines.alone:
            return False
        if attempt is not None:
            return attempt.delegated
        return self._engines.delegate_of(run.spec.target.cluster) is not None

    def _shape(self, run: Run) -> Shape:
        """The shape of the run, cached while it lives."""
        shape = self._shapes.get(run.id)
        if shape is None:
            shape = self._shapes[run.id] = self._known_shapes.of(run.spec)
            if (cluster := BURST_PREFIX + run.id) in self.rented:
                shape = self._shapes[run.id] = shape[0], Target(cluster=cluster)
        return shape

    def _drop(self, run_id: str) -> None:
        if run_id in self._fact_ids:
            self._changed[run_id] = None
        else:
            self._changed.pop(run_id, None)  # a server that never plans remembers no ended run
        self._release(run_id)
        self.waiters.forget(run_id)
        self.long_waits.forget(run_id)
        run = self.runs.get(run_id)
        if run is not None:
            if _has_group(run):
                self._changed |= dict.fromkeys(self.limits.forget(run_id))
            self._count_member(run, None)
            self.for_delegates.get(run.spec.target.cluster or "", {}).pop(run_id, None)
        for table in (self.runs, self.pending, self.rehearsals, self._shapes):
            table.pop(run_id, None)
        self.delegated.put(run_id, None)


def _has_group(run: Run) -> bool:
    """Whether `GroupLimits` may know the run."""
    return run.spec.array is not None or run.spec.trial is not None
