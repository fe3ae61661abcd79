"""One cycle of the scheduler over all pools. Called by `Ledger.plan`.

docs/operating/scheduler.md describes its steps in order.
"""

from collections.abc import Iterator
from contextlib import closing
from math import inf

from tarmac.model.progress import CauseCode
from tarmac.model.resources import Reason
from tarmac.sched.cycle.due import due_in_pool
from tarmac.sched.cycle.pool_cycle import PoolCycle
from tarmac.sched.cycle.queue_walk import along, walk_queue
from tarmac.sched.decisions import Placement, Plan, Preemption, PreemptionReason, Refusal, ShareGrant
from tarmac.sched.facts import Candidate
from tarmac.sched.index.facts_index import FactsIndex
from tarmac.sched.index.forecast import Holder
from tarmac.sched.index.queues import ClassQueue, RequestClass
from tarmac.sched.placing.board import PoolKey
from tarmac.sched.placing.reasons import why_never, why_not_now


class Cycle:
    """The decisions of a cycle in each pool. `close` undoes its changes to the pools."""

    def __init__(self, index: FactsIndex, now: float) -> None:
        self.now = now
        self.pools: dict[PoolKey, PoolCycle] = {}
        self._index = index
        self._placed: dict[str, Placement] = {}

    def run(self) -> Plan:
        """Decide over all pools."""
        for key in self._index.pools:
            walk_queue(self.enter(key))
        if len(self.pools) > 1:
            for current in self.pools.values():
                self._spill(current)
        preemptions, shares = list(self._returning()), list[ShareGrant]()
        next_at = self._index.deferred.wakes_at()
        for current in self.pools.values():
            preemptions += current.preemptions
            shares += current.due.shares
            next_at = min(next_at, current.next_at)
        return Plan(
            placements=tuple(self._placed.values()),
            preemptions=tuple(preemptions),
            refusals=tuple(self._refusals()),
            shares=tuple(shares),
            next_at=next_at if next_at < inf else None,
        )

    def stop_at(self, run_id: str) -> PoolCycle | None:
        """Decide in the home pool of a queued run up to its turn; None if it has no home pool."""
        home = self._index.home(run_id)
        if home is None:
            return None
        current = self.enter(home.key)
        walk_queue(current, until=run_id)
        current.protect()
        return current

    def starts_now(self, candidate: Candidate) -> bool:
        """Whether a run, queued or not, would start now. Takes no slots."""
        request = self._index.request_of(candidate)
        pools = request.feasibility.pools if request.target.pool is None else request.feasibility.pools[:1]
        return any(self.enter(key).fitting(candidate, request) is not None for key in pools)

    def close(self) -> None:
        """Undo the changes to all pools."""
        for current in self.pools.values():
            current.close()

    def enter(self, key: PoolKey) -> PoolCycle:
        """Begin the cycle of a pool, or return the one begun."""
        if key not in self.pools:
            state = self._index.pools[key]
            due = due_in_pool(state, self.now, at_home=self._at_home)
            self.pools[key] = PoolCycle(state, self.now, due=due, placed=self._placed)
        return self.pools[key]

    def reasons(self, request: RequestClass, *, run_id: str | None = None) -> tuple[Reason, ...]:
        """Why a request class does not start now; reservations for `run_id` itself do not count."""
        index = self._index
        return why_not_now(
            index.cluster(),
            request.demands,
            request.target,
            feasibility=request.feasibility,
            holdings=[
                holder.holding
                for state in index.pools.values()
                for holder in (*state.holdings.values(), *self.enter(state.key).new_holders)
            ],
            spaces={
                name: space for state in index.pools.values() for name, space in state.board.spaces.items()
            },
            reserved_for={
                name: index.candidate(reservation.run_id).label
                for current in self.pools.values()
                for reservation in current.reservations
                if reservation.run_id != run_id
                for name in reservation.nodes
            },
        )

    def never(self, request: RequestClass) -> tuple[tuple[Reason, ...], str | None]:
        """Why no empty cluster fits a request class, and the biggest request that one would fit."""
        reasons = why_never(self._index.cluster(), request.demands, request.target)
        return reasons, self._index.admission.largest(request.demands, request.target)

    def _at_home(self, holder: Holder) -> bool:
        """Whether a run holds slots in its home pool, where it is queued again."""
        return self._index.request_of(holder.holding.candidate).feasibility.pools[:1] == holder.pools[:1]

    def _returning(self) -> Iterator[Preemption]:
        """Preempt runs that hold slots in another pool than the one a person moved them to."""
        for run_id, holder in sorted(self._index.misplaced.items()):
            seq = holder.holding.candidate.seq
            yield Preemption(run_id=run_id, seq=seq, reason=PreemptionReason.POOL_CHANGED)

    def _spill(self, home: PoolCycle) -> None:
        """Start runs that name no pool and did not fit at home in the free slots of other pools."""
        most_free = max(current.state.board.free[None] for current in self.pools.values())
        asking = home.state.queue.up_to(most_free)
        walk = along(home, (request for request in asking if self._elsewhere(request)))
        while (step := walk.next()) is not None:
            _, class_queue, index = step
            assert isinstance(class_queue, ClassQueue)
            queued = class_queue.entries[index][1]
            run_id = queued.candidate.run_id
            index += 1
            if run_id not in self._placed and run_id not in home.awaiting:
                others = self._elsewhere(class_queue.request)
                if not any(other.try_lend(queued) for other in others) and not any(
                    other.can_lend(class_queue.request) for other in others
                ):
                    index = len(class_queue.entries)
            walk.go_on(index)

    def _elsewhere(self, request: RequestClass) -> list[PoolCycle]:
        """The other pools that may fit a request class."""
        if request.target.pool is not None:
            return []
        others = (self.pools[key] for key in request.feasibility.pools[1:])
        return [other for other in others if other.can_lend(request)]

    def _refusals(self) -> Iterator[Refusal]:
        """Refuse runs that can never start, and runs that must fail if busy."""
        never: dict[RequestClass, tuple[tuple[Reason, ...], str | None]] = {}
        busy: dict[RequestClass, tuple[Reason, ...]] = {}
        refused = self._index.refused.values()
        for candidate, request in sorted(refused, key=lambda item: _by_submission(item[0])):
            if request not in never:
                never[request] = self.never(request)
            yield _refusal(candidate, CauseCode.NEVER_FITS, *never[request])
        for current in self.pools.values():
            fail_if_busy = current.state.queue.fail_if_busy
            for queued in sorted(fail_if_busy.values(), key=lambda item: _by_submission(item.candidate)):
                if queued.candidate.run_id not in self._placed:
                    if queued.request not in busy:
                        busy[queued.request] = self.reasons(queued.request)
                    yield _refusal(queued.candidate, CauseCode.BUSY, busy[queued.request], None)


def _by_submission(candidate: Candidate) -> tuple[float, str]:
    return candidate.submitted_at, candidate.run_id


def _refusal(
    candidate: Candidate, code: CauseCode, reasons: tuple[Reason, ...], largest: str | None
) -> Refusal:
    return Refusal(run_id=candidate.run_id, seq=candidate.seq, code=code, reasons=reasons, largest=largest)


class Ledger(FactsIndex):
    """The facts and the plans made from them. Not for use by two threads at once."""

    def plan(self, now: float) -> Plan:
        """Decide one cycle at `now`.

        It changes no fact: the caller records the decisions that it carries out.
        """
        self.wake(now)
        with closing(Cycle(self, now)) as current:
            return current.run()
