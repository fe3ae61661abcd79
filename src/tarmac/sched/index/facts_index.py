"""The facts of the scheduler, indexed for a cycle: by pool, by order, by request.

`Ledger` adds a plan to it; `cycle` reads it. Its content depends on the facts alone, not on the order of the
updates.
"""

from collections.abc import Iterable, Iterator
from math import inf

from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Node, Pool
from tarmac.model.codec import replace
from tarmac.model.people.limits import Cap, SlotUse, pool_key
from tarmac.model.reservations import NodeReservation
from tarmac.model.run import Allocation
from tarmac.sched.facts import Candidate, Holding, Snapshot
from tarmac.sched.index.forecast import Holder, ends
from tarmac.sched.index.limits import LimitBook
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import UNRESERVED, RequestClass
from tarmac.sched.index.zones import standing_of
from tarmac.sched.placing.admission import Admission
from tarmac.sched.placing.board import PoolKey, boards
from tarmac.sched.placing.space import Load, loads_of

IDLE_REQUESTS = 4096
"""The number of request classes from which those without runs are dropped."""

EMPTY = Snapshot(pools=(), nodes=(), queue=(), holdings=())


class _Deferred:
    """Candidates that do not start before a time, or before others end; `now` is that of the last cycle.

    The facts and the time of the cycle decide which runs are deferred: the index wakes them at the beginning
    of a cycle. Time does not wake a run that waits for another: its caller queues it again after that one has
    ended.
    """

    __slots__ = ("_asleep", "_awake", "now")

    def __init__(self, now: float = -inf) -> None:
        self.now = now
        self._asleep: dict[str, Candidate] = {}
        self._awake: dict[str, Candidate] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._asleep

    def defers(self, candidate: Candidate) -> bool:
        """Whether a candidate that queues is deferred now. Remembers it if it may be at another time."""
        if candidate.not_before is None and not candidate.awaits and not candidate.over_limit:
            return False
        rests = _rests(candidate, self.now)
        (self._asleep if rests else self._awake)[candidate.run_id] = candidate
        return rests

    def forget(self, run_id: str) -> bool:
        """Forget a candidate; True if it was deferred."""
        self._awake.pop(run_id, None)
        return self._asleep.pop(run_id, None) is not None

    def woken(self, now: float) -> list[Candidate]:
        """Wake the candidates whose time has come, and return them."""
        self.now = now
        found = [item for item in self._asleep.values() if not _rests(item, now)]
        for candidate in found:
            self._awake[candidate.run_id] = self._asleep.pop(candidate.run_id)
        return found

    def put_back(self, now: float) -> list[Candidate]:
        """Defer the woken candidates that are not due at this earlier time, and return them."""
        found = [item for item in self._awake.values() if _rests(item, now)]
        for candidate in found:
            self._asleep[candidate.run_id] = self._awake.pop(candidate.run_id)
        return found

    def wakes_at(self) -> float:
        """The earliest start of a deferred candidate."""
        return min((_not_before(item) for item in self._asleep.values()), default=inf)

    def candidates(self) -> list[Candidate]:
        """The candidates that are deferred now."""
        return list(self._asleep.values())


def _rests(candidate: Candidate, now: float) -> bool:
    return _not_before(candidate) > now


def _not_before(candidate: Candidate) -> float:
    if candidate.awaits or candidate.over_limit:
        return inf
    return -inf if candidate.not_before is None else candidate.not_before


class FactsIndex:
    """Pools, nodes, queued runs, holdings and usage. Not for use by two threads at once.

    `pools` has the state of each pool that has nodes, in order of preference. A queued run is in the queue of
    its home pool, or `deferred` because it may not start yet, or `refused` because no empty cluster fits it,
    or `unassigned` because its cluster has not reported its nodes yet. `misplaced` are holdings in another
    pool than the one a person set.
    """

    def __init__(self, snapshot: Snapshot = EMPTY) -> None:
        self.pools: dict[PoolKey, PoolState] = {}
        self.refused: dict[str, tuple[Candidate, RequestClass]] = {}
        self.unassigned: dict[str, tuple[Candidate, RequestClass]] = {}
        self.deferred = _Deferred()
        self.misplaced: dict[str, Holder] = {}
        self.admission = Admission((), ())
        self._reservations: set[NodeReservation] = set()
        self._rules: tuple[Pool, ...] = ()
        self._nodes: tuple[Node, ...] = ()
        self._candidates: dict[str, Candidate] = {}
        self._homes: dict[str, PoolState] = {}
        self._holders: dict[str, Holder] = {}
        self._requests: dict[object, RequestClass] = {}
        self._places: dict[str, PoolState] = {}
        self._loads: dict[str, dict[str, Load]] = {}
        self._usage: list[UsageBucket] = []
        self._caps, self._elsewhere = snapshot.caps, snapshot.elsewhere
        self._build(snapshot.pools, snapshot.nodes, snapshot.holdings, snapshot.queue)
        self.add_usage(snapshot.usage)

    def set_cluster(self, pools: tuple[Pool, ...], nodes: tuple[Node, ...]) -> None:
        """Replace all pools and nodes; cheap if little has changed."""
        if nodes is not self._nodes and nodes != self._nodes:
            restated = self._restated(nodes)
            if restated is None:
                self._rebuild(pools, nodes)
                return
            self._nodes = nodes
            for node in restated:
                self._places[node.name].restate(node)
        if pools is not self._rules and pools != self._rules:
            if {pool.cluster for pool in pools} != {pool.cluster for pool in self._rules}:
                self._rebuild(pools, nodes)
                return
            self._rules = pools
            rules = {pool.key: pool for pool in pools}
            for key, state in self.pools.items():
                state.set_rules(rules.get(key) or _usual(key))
            self.admission = Admission(self._rules, self._nodes)

    def set_limits(self, caps: tuple[Cap, ...], elsewhere: tuple[SlotUse, ...]) -> bool:
        """Replace the caps and the slots held elsewhere; returns whether they differ."""
        before, self._caps, self._elsewhere = (self._caps, self._elsewhere), caps, elsewhere
        return before != (caps, elsewhere)

    def limit_book(self) -> LimitBook | None:
        """The caps and all slots held under them; None if there is no cap."""
        if not self._caps:
            return None
        uses = (slot_use(each.candidate, each.allocation) for each in self.holdings())
        return LimitBook(self._caps, (*self._elsewhere, *uses))

    def queue(self, candidate: Candidate) -> None:
        """Add or replace a queued run."""
        run_id = candidate.run_id
        if self._candidates.get(run_id) is candidate:
            return
        self.forget(run_id)
        self._candidates[run_id] = candidate
        request = self.request_of(candidate)
        state = self._home(candidate, request)
        if state is not None and not self.deferred.defers(candidate):
            state.enqueue(candidate, request)

    def queue_all(self, candidates: Iterable[Candidate]) -> None:
        """Add many queued runs that are all new, sorting once."""
        by_pool: dict[PoolKey, list[tuple[Candidate, RequestClass]]] = {}
        for candidate in candidates:
            self._candidates[candidate.run_id] = candidate
            request = self.request_of(candidate)
            state = self._home(candidate, request)
            if state is not None and not self.deferred.defers(candidate):
                by_pool.setdefault(state.key, []).append((candidate, request))
        for key, runs in by_pool.items():
            self.pools[key].queue.add_all(runs)

    def wake(self, now: float) -> None:
        """Queue the runs that may start at `now`, and defer the others: `now` may be in the past."""
        for candidate in self.deferred.woken(now):
            self._homes[candidate.run_id].enqueue(candidate, self.request_of(candidate))
        for candidate in self.deferred.put_back(now):
            self._homes[candidate.run_id].queue.remove(candidate.run_id)

    def hold(self, holding: Holding) -> None:
        """Add or replace a run that holds an allocation."""
        run_id = holding.candidate.run_id
        old = self._holders.get(run_id)
        if old is None or old.holding.allocation != holding.allocation:
            self.forget(run_id)
            loads = loads_of(holding.allocation)
            pools = self._pools_of(loads)
            for name, load in loads.items():
                self._loads.setdefault(name, {})[run_id] = load
                self._set_loads(name)
        else:
            loads, pools = old.loads, old.pools
            for key in pools:
                self.pools[key].drop_holder(old)
        holder = self._file(holding, loads, pools)
        for key in pools:
            self.pools[key].add_holder(holder)

    def forget(self, run_id: str) -> None:
        """Remove a run; does nothing if it is unknown."""
        if self._candidates.pop(run_id, None) is not None:
            state = self._homes.pop(run_id, None)
            rested = self.deferred.forget(run_id)
            if state is not None:
                if not rested:
                    state.queue.remove(run_id)
            elif self.refused.pop(run_id, None) is None:
                self.unassigned.pop(run_id, None)
            return
        holder = self._holders.pop(run_id, None)
        if holder is None:
            return
        self.misplaced.pop(run_id, None)
        for name in holder.loads:
            loads = self._loads[name]
            del loads[run_id]
            if not loads:
                del self._loads[name]
            self._set_loads(name)
        for key in holder.pools:
            self.pools[key].drop_holder(holder)
            self.pools[key].memo.change(freed=True)

    def add_usage(self, usage: Iterable[UsageBucket]) -> None:
        """Add the usage of ended attempts."""
        for item in usage:
            self._usage.append(item)
            state = self.pools.get((item.cluster, item.pool))
            if state is not None:
                state.accounts.record(item)

    def snapshot(self, queue: Iterable[Candidate] | None = None) -> Snapshot:
        """All facts as a value, with this queue or (None) every queued run."""
        return Snapshot(
            pools=self._rules,
            nodes=self._nodes,
            queue=tuple(self._candidates.values() if queue is None else queue),
            holdings=tuple(holder.holding for holder in self._holders.values()),
            usage=tuple(self._usage),
            caps=self._caps,
            elsewhere=self._elsewhere,
        )

    def holdings(self) -> Iterator[Holding]:
        """All holdings, in the order of their addition."""
        return (holder.holding for holder in self._holders.values())

    def cluster(self) -> Snapshot:
        """The pools and nodes alone."""
        return Snapshot(pools=self._rules, nodes=self._nodes, queue=(), holdings=())

    def request_of(self, candidate: Candidate) -> RequestClass:
        """The request class of a candidate, with its feasibility."""
        target = candidate.target
        if candidate.pool is not None:
            target = replace(target, pool=candidate.pool)
        standing = standing_of(candidate, self._reservations) if self._reservations else UNRESERVED
        key = (candidate.demands, target, standing)
        request = self._requests.get(key)
        if request is None:
            if len(self._requests) > IDLE_REQUESTS:
                self._requests = {
                    key: request for key, request in self._requests.items() if request.class_queues
                }
            feasibility = self.admission.feasibility(candidate.demands, target)
            request = self._requests[key] = RequestClass.of(candidate.demands, target, feasibility, standing)
        return request

    def candidate(self, run_id: str) -> Candidate:
        """A run that is queued or holds slots."""
        queued = self._candidates.get(run_id)
        return self._holders[run_id].holding.candidate if queued is None else queued

    def known(self, run_id: str) -> Candidate | None:
        """The same run, if there is one."""
        return self.candidate(run_id) if run_id in self._candidates or run_id in self._holders else None

    def home(self, run_id: str) -> PoolState | None:
        """The pool whose queue has the run."""
        return None if run_id in self.deferred else self._homes.get(run_id)

    def deferred_home(self, candidate: Candidate) -> PoolKey:
        """The home pool of a deferred candidate."""
        return self._homes[candidate.run_id].key

    def _home(self, candidate: Candidate, request: RequestClass) -> PoolState | None:
        """Index a candidate: its home pool, unless it is refused or unassigned."""
        run_id = candidate.run_id
        if request.feasibility.pools:
            state = self._homes[run_id] = self.pools[request.feasibility.pools[0]]
            return state
        unplaced = self.unassigned if request.feasibility.fits else self.refused
        unplaced[run_id] = (candidate, request)
        return None

    def _set_loads(self, name: str) -> None:
        place = self._places.get(name)
        if place is not None:
            place.board.set_loads(place.board.spaces[name], self._loads.get(name, {}).values())

    def _restated(self, nodes: tuple[Node, ...]) -> list[Node] | None:
        """The nodes that only changed their state; None if anything else has changed."""
        if len(nodes) != len(self._nodes):
            return None
        known = {node.name: node for node in self._nodes}
        restated = []
        for node in nodes:
            before = known.get(node.name)
            if before is None:
                return None
            if before is node or before == node:
                continue
            if replace(before, state=node.state) != node:
                return None
            restated.append(node)
        return restated

    def _rebuild(self, pools: tuple[Pool, ...], nodes: tuple[Node, ...]) -> None:
        """Index everything again, after nodes have come, gone or changed."""
        holdings = [item.holding for item in self._holders.values()]
        self._build(pools, nodes, holdings, tuple(self._candidates.values()))

    def _build(
        self,
        pools: tuple[Pool, ...],
        nodes: tuple[Node, ...],
        holdings: Iterable[Holding],
        queue: Iterable[Candidate],
    ) -> None:
        self._rules, self._nodes = pools, nodes
        self._candidates, self._homes, self._holders = {}, {}, {}
        self._requests, self._places, self._loads = {}, {}, {}
        self.refused, self.unassigned, self.misplaced = {}, {}, {}
        self.deferred = _Deferred(self.deferred.now)
        self.admission = Admission(pools, nodes)
        self._reservations = {each for node in nodes for each in node.reservations}
        loaded = [(holding, loads_of(holding.allocation)) for holding in holdings]
        for holding, loads in loaded:
            for name, load in loads.items():
                self._loads.setdefault(name, {})[holding.candidate.run_id] = load
        rules = {pool.key: pool for pool in pools}
        self.pools = {
            key: PoolState(rules.get(key) or _usual(key), board)
            for key, board in boards(nodes, self._loads).items()
        }
        for state in self.pools.values():
            self._places.update(dict.fromkeys(state.board.spaces, state))
        by_pool: dict[PoolKey, list[Holder]] = {}
        for holding, loads in loaded:
            holder = self._file(holding, loads, self._pools_of(loads))
            for key in holder.pools:
                by_pool.setdefault(key, []).append(holder)
        for key, together in by_pool.items():
            self.pools[key].add_holders(together)
        self.queue_all({candidate.run_id: candidate for candidate in queue}.values())

    def _pools_of(self, loads: Iterable[str]) -> tuple[PoolKey, ...]:
        """The pools of the known nodes, the first one first; usually one."""
        return tuple(dict.fromkeys(self._places[name].key for name in loads if name in self._places))

    def _file(self, holding: Holding, loads: dict[str, Load], pools: tuple[PoolKey, ...]) -> Holder:
        """Index a holding and return its record."""
        run_id = holding.candidate.run_id
        holder = Holder(holding, loads, pools, ends(holding, self.pools[pools[0]].rules if pools else None))
        self._holders[run_id] = holder
        pool = holding.candidate.pool
        if pool is not None and pools and pools[0][1] != pool and not holding.leaving:
            self.misplaced[run_id] = holder
        else:
            self.misplaced.pop(run_id, None)
        return holder


def slot_use(candidate: Candidate, allocation: Allocation) -> SlotUse:
    """The slots of a run in an allocation, as limits count them."""
    pool = pool_key(allocation.cluster, allocation.pool)
    return SlotUse(candidate.owner, candidate.project, pool, allocation.slots)


def _usual(key: PoolKey) -> Pool:
    """The rules of a pool that has none of its own."""
    cluster, name = key
    return Pool(cluster=cluster, name=name)
