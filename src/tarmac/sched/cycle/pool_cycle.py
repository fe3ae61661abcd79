"""One pool in a cycle: whether a run starts, where, and which nodes are reserved until it does.

`queue_walk` walks the queue and calls it. It tries decisions on a `PoolState` and `close` undoes them: facts
change only when the caller has recorded the decisions.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from math import inf

from tarmac.model.people.limits import Cap, SlotUse, pool_key
from tarmac.model.run import Allocation
from tarmac.sched.cycle.due import Due, allotted_s
from tarmac.sched.cycle.reserved import Reservation, SpareRoom
from tarmac.sched.decisions import Placement, Preemption
from tarmac.sched.facts import Candidate, Holding
from tarmac.sched.index.facts_index import slot_use
from tarmac.sched.index.forecast import Forecast, Holder, ends, left_at, soonest
from tarmac.sched.index.limits import LimitBook
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import ModeQueue, Queued, RequestClass, Standing, limit_s
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.fitting import Part
from tarmac.sched.placing.gangs import allot
from tarmac.sched.placing.space import loads_of
from tarmac.sched.placing.view import View
from tarmac.sched.policies.order import Key

WAIT_RATIO = 4
"""Nodes are reserved for a run without a predictable start once it has waited this many times as long as the
oldest run that it waits for has run. decisions/0028 has the measurements.
"""

FAILED_TRIES = 16
"""After this many runs of a mode that find nothing to preempt, a cycle tries no more of them."""


OrderPlace = tuple[int, float, Key]
"""The rank of a mode, the usage of an entity, and the key of a run. The least comes first."""


class PoolCycle:
    """The state of a cycle over one pool.

    `placed` has the runs that start in any pool of the cycle, in order; `granted` those of this pool, and
    `new_holders` their holdings; `awaiting` the runs for which others are preempted.
    """

    def __init__(
        self,
        state: PoolState,
        now: float,
        *,
        due: Due,
        placed: dict[str, Placement],
        limits: LimitBook | None = None,
    ) -> None:
        """All pools of a cycle share `placed`, and the book of `limits` (None: there are none)."""
        self.state = state
        self.now = now
        self.due = due
        self.next_at = inf  # when another cycle is of use, even if no fact changes
        self.placed = placed
        self.limits = limits
        self.limited_pool = pool_key(*state.key)
        self.preemptions: list[Preemption] = list(due.preemptions)
        self.reservations: list[Reservation] = []
        self._numbers_by_run: dict[str, int] = {}
        self._numbers_by_start: dict[float, list[int]] = {}
        self._end_times: dict[tuple[Standing, int], list[tuple[float, list[int]]]] = {}
        self.awaiting: set[str] = set()
        self.granted: list[tuple[Candidate, Allocation]] = []
        self._new_holders: list[Holder] = []
        self._lending_windows: dict[RequestClass, float] = {}
        self._unprotected: list[Queued] = []  # tried before, without reserved nodes
        self._refused: dict[RequestClass, None] = {}  # tried before, and nothing is preempted for them
        self.blocked: list[Queued] = []  # first in order; `protect` reserves nodes for them
        self._protected = False
        self.spare_room = SpareRoom(state.board.spaces)
        self.failed_tries = Counter[int]()

    @property
    def new_holders(self) -> list[Holder]:
        """The holders placed here in this cycle; reading them adds them to the releases."""
        releases = self.state.releases
        for candidate, allocation in self.granted[len(self._new_holders) :]:
            holding = Holding(candidate=candidate, allocation=allocation, granted_at=self.now)
            loads = loads_of(allocation)
            holder = Holder(holding, loads, (self.state.key,), ends(holding, self.state.rules))
            self._new_holders.append(holder)
            insort(releases, (holder.ends, holder))
        return self._new_holders

    def close(self) -> None:
        """Undo the changes to the state of the pool."""
        state = self.state
        for holder in self._new_holders:
            del state.releases[bisect_left(state.releases, (holder.ends,))]
        if state.board.touched:
            state.memo.free()  # the taken slots are free again
        state.board.undo()

    def exceeded(self, candidate: Candidate, request: RequestClass) -> Cap | None:
        """The limit that a run would exceed if it started here now; None if it may start."""
        if self.limits is None:
            return None
        use = SlotUse(candidate.owner, candidate.project, self.limited_pool, request.slots)
        return self.limits.exceeded(use, candidate.time_limit_s)

    def try_start(self, queued: Queued) -> bool:
        """Start this run here if it fits; otherwise remember for its request class that it does not."""
        request = queued.request
        if self.cannot_fit(request) or self._is_blocked(request):
            return False
        self.protect()
        if not self.ends_in_time(request, limit_s(queued.candidate)):
            return False
        parts = self.fitting(queued.candidate, request)
        if parts is None:
            self._remember(request)
            return False
        self._place(queued, parts)
        return True

    def can_lend(self, request: RequestClass) -> bool:
        """Whether a run of another pool may fit here."""
        return not self.cannot_fit(request) and self._lending_windows.get(request, inf) > self.now

    def try_lend(self, queued: Queued) -> bool:
        """Start a run of another pool here if it fits into what the runs of this pool leave free."""
        request = queued.request
        if self.cannot_fit(request) or self.exceeded(queued.candidate, request):
            return False
        self.protect()
        if self.now + limit_s(queued.candidate) > self._lending_windows.get(request, inf):
            return False
        parts = self.fitting(queued.candidate, request)
        if parts is not None:
            self._place(queued, parts)
            return True
        self._lending_windows[request] = self._find_window(request)
        return False

    def rank(self, mode_queue: ModeQueue) -> tuple[int, float]:
        """The present rank and usage of a mode queue among the others."""
        return mode_queue.rank, self.usage_of(mode_queue)

    def place(self, queued: Queued) -> OrderPlace:
        """The present place of a queued run in the order of the pool."""
        return (*self.rank(queued.mode_queue), queued.key)

    def in_order(self) -> Iterator[Queued]:
        """All queued runs of the pool in scheduling order."""
        ranked = map(self._ranked, self.state.queue.mode_queues())
        return (queued for *_, queued in merge(*ranked))

    def before(self, queued: Queued) -> int:
        """How many queued runs of the pool are ordered before this one."""
        own, ahead = self.rank(queued.mode_queue), 0
        for mode_queue in self.state.queue.mode_queues():
            if (rank := self.rank(mode_queue)) < own:
                ahead += len(mode_queue)
            elif rank == own:
                ahead += mode_queue.before(queued.key)
        return ahead

    def is_deferred(self, mode_queue: ModeQueue) -> bool:
        """Whether no run of a mode queue may start in this cycle."""
        return mode_queue.rank in self.due.deferred_modes

    def may_preempt(self, mode_queue: ModeQueue) -> bool:
        """Whether a run of a mode queue could preempt others, and its mode is not out of tries."""
        preemptor, tries = self.due.preemptor, self.failed_tries[mode_queue.rank]
        return preemptor is not None and tries < FAILED_TRIES and preemptor.can_preempt(mode_queue)

    def cannot_fit(self, request: RequestClass) -> bool:
        """Whether a request class is known not to fit the free slots here, without looking at nodes."""
        state = self.state
        return request in state.memo.blocked or request.slots > state.board.free_of(request.slot_type)

    def fitting(self, candidate: Candidate, request: RequestClass) -> list[Part] | None:
        """A place for a run now. Takes no slots."""
        self.protect()
        return self._fit(request, self._usable(candidate, request), self.now + limit_s(candidate))

    def forecast(self, request: RequestClass, limit_s: float, *, known: bool = False) -> Forecast | None:
        """When a run that lasts `limit_s` could start here on unreserved nodes; `known`: by known ends alone.

        It leaves zones in time: the later it starts, the fewer are open to it.
        """
        ended_at, zones = self.now + limit_s, self.state.zones
        while (found := self._forecast(request, ended_at, known=known)) is not None:
            before, ended_at = ended_at, max(ended_at, found.at + limit_s)
            if zones.open_to(request, before) == zones.open_to(request, ended_at):
                break
        return found

    def _forecast(self, request: RequestClass, ended_at: float, *, known: bool) -> Forecast | None:
        state, zones = self.state, self.state.zones.open_to(request, ended_at)
        key = (request, zones, known, tuple(reservation.nodes for reservation in self.reservations))
        undisturbed = not self.new_holders
        if undisturbed and key in state.memo.forecasts:
            return state.memo.forecasts[key]
        most = state.known_releases() if known else len(state.releases)
        board = self._part(request, ended_at)
        found = soonest(request, board=board, releases=state.releases, most=most)
        if undisturbed:
            state.memo.forecasts[key] = found
        return found

    def protect(self) -> None:
        """Reserve nodes for the blocked runs so far, because later runs are ordered after them."""
        blocked, self.blocked = self.blocked, []
        for queued in blocked:
            known = not self._window_is_over(queued.candidate)
            forecast = self.forecast(queued.request, limit_s(queued.candidate), known=known)
            if forecast is not None and self._justifies_reservation(queued, forecast):
                self.reserve(queued.candidate.run_id, forecast)
            else:
                self._unprotected.append(queued)
        if blocked or not self._protected:
            self._protected = True
            self.state.memo.reserve(tuple(self.reservations))

    def _window_is_over(self, candidate: Candidate) -> bool:
        """Whether a run without a predictable start has waited long enough to get reserved nodes (M3).

        From then on nothing that could delay it starts on its nodes, so it starts at the latest when the
        present holders end.
        """
        return self.now - candidate.queued_at >= self.state.rules.backfill_window_s

    def _justifies_reservation(self, queued: Queued, forecast: Forecast) -> bool:
        """Whether nodes may idle for a run until then.

        A predictable start is reserved at once. Otherwise the run must have waited long compared with the
        running time of the runs that it waits for, which are likely to run as long again.
        """
        waited_s = self.now - queued.candidate.queued_at
        return forecast.at < inf or waited_s >= WAIT_RATIO * (self.now - self._oldest_on(forecast.nodes))

    def _oldest_on(self, nodes: Iterable[str]) -> float:
        """The grant time of the oldest holding without a known end on these nodes."""
        state, names = self.state, set(nodes)
        unknown = islice(state.releases, state.known_releases(), None)
        return next((holder.ends[1] for _, holder in unknown if not names.isdisjoint(holder.loads)), self.now)

    def reserve(self, run_id: str, forecast: Forecast) -> None:
        """Reserve nodes for a run: others start there in its spare room only, or if they end before `at`."""
        at, number = max(self.now, forecast.at), self.state.board.reserve(forecast.nodes)
        reservation = Reservation(run_id, at, forecast.nodes, number, forecast.spare)
        self.reservations.append(reservation)
        self._numbers_by_run[run_id] = number
        self._numbers_by_start.setdefault(at, []).append(number)
        self.spare_room.add(reservation)

    def preempt_for(self, queued: Queued) -> bool:
        """Preempt others for a run that does not fit, and reserve its nodes; False if none is preempted."""
        preemptor, mode_queue = self.due.preemptor, queued.mode_queue
        if preemptor is None or not self.may_preempt(mode_queue):
            return False
        self.protect()
        found = preemptor.preempt(queued, would_be_kept=self._would_be_kept)
        if found is None:
            self.failed_tries[mode_queue.rank] += 1
            self._refused[queued.request] = None
            return False
        self.preemptions += found.preemptions
        self.awaiting.add(queued.candidate.run_id)
        self.reserve(queued.candidate.run_id, Forecast(at=found.at, nodes=found.nodes, ended=0))
        self.state.memo.reserve(None)
        return True

    def _would_be_kept(self, victims: Sequence[Holder], nodes: Collection[str]) -> bool:
        """Whether an earlier run takes these nodes as soon as these holders have left.

        The victims may be the only holders without a known end, so that the start of an earlier run becomes
        predictable. A run for which nothing is preempted may also start when a turn of another run ends by
        then.
        """
        if not self._unprotected and not self._refused:
            return False
        known = self.state.releases[: self.state.known_releases()]
        releases = [((-inf, *holder.ends[1:]), holder) for holder in victims]
        releases += [(end, holder) for end, holder in known if holder not in victims]
        by_then = bisect_right(releases, left_at(victims, self.now), key=lambda release: release[0][0])
        tried = [(queued.request, self.now + limit_s(queued.candidate), None) for queued in self._unprotected]
        found = (
            soonest(request, board=self._part(request, ended_at), releases=releases, most=most)
            for request, ended_at, most in chain(tried, ((each, inf, by_then) for each in self._refused))
        )
        return any(each is not None and not set(nodes).isdisjoint(each.nodes) for each in found)

    def _ranked(self, mode_queue: ModeQueue) -> Iterator[tuple[int, float, Key, Queued]]:
        rank, usage = self.rank(mode_queue)
        return ((rank, usage, key, queued) for key, queued in mode_queue.every())

    def _place(self, queued: Queued, parts: list[Part]) -> None:
        candidate = queued.candidate
        self.spare_room.take(parts)
        allocation = allot(parts, self.state.board)
        self.placed[candidate.run_id] = Placement(
            run_id=candidate.run_id,
            seq=candidate.seq,
            allocation=allocation,
            allotted_s=allotted_s(candidate, self.state.rules, self.now),
        )
        self.granted.append((candidate, allocation))
        if self.limits is not None:
            self.limits.take(slot_use(candidate, allocation))
        if self.due.past_usage is not None and queued.mode_queue.entity is not None:
            self.due.past_usage.charge(candidate, queued.mode_queue.entity)

    def _usable(self, candidate: Candidate, request: RequestClass) -> list[int]:
        """The reservations that a run may use: its own, and those that it would leave in time."""
        if request.weightless:
            return list(self.state.board.reservations)
        usable = self._usable_until(self.now + limit_s(candidate))
        own = self._numbers_by_run.get(candidate.run_id)
        return usable if own is None or own in usable else [*usable, own]

    def _usable_until(self, ended_at: float) -> list[int]:
        """The reservations that a run would leave in time if it has ended by then."""
        starts = self._numbers_by_start.items()
        return [number for at, numbers in starts if ended_at <= at < inf for number in numbers]

    def _part(self, request: RequestClass, ended_at: float) -> PoolBoard:
        return self.state.zones.part(self.state.board, request, ended_at)

    def _fit(self, request: RequestClass, reservations: Sequence[int], ended_at: float) -> list[Part] | None:
        if not self._may_fit(request, reservations, ended_at):
            return None
        board, count, spare = (
            self._part(request, ended_at),
            request.count,
            self.spare_room.beside(reservations),
        )
        at_least = () if count is None else board.at_least(count.shard, count.slot_type, reservations, spare)
        way = None if count is None else count.way(at_least)
        return request.fit(View.of(board, request.target, reserved=reservations, ghosts=spare), way)

    def _may_fit(self, request: RequestClass, reservations: Sequence[int], ended_at: float = -inf) -> bool:
        """Whether choosing nodes for a request class can succeed."""
        count = request.count
        if count is None:
            return True
        board, spare = self._part(request, ended_at), self.spare_room.beside(reservations)
        return count.fits(board.at_least(count.shard, count.slot_type, reservations, spare))

    def _fits(self, request: RequestClass, reservations: Sequence[int], ended_at: float = -inf) -> bool:
        if request.count is not None:
            return self._may_fit(request, reservations, ended_at)
        return self._fit(request, reservations, ended_at) is not None

    def _is_blocked(self, request: RequestClass) -> bool:
        """Whether a request class does not fit even with all reserved nodes; remembered if so."""
        if self._may_fit(request, self.state.board.reservations):
            return False
        self.state.memo.blocked.add(request)
        return True

    def can_start(self, request: RequestClass) -> bool:
        """Whether a run of a request class may start, if it also `ends_in_time`."""
        if self.cannot_fit(request) or self._is_blocked(request):
            return False
        self.protect()
        if request.count is not None and request not in self.state.memo.windows:
            self._remember(request)
        return self.state.memo.windows.get(request, inf) > self.now

    def ends_in_time(self, request: RequestClass, limit_s: float) -> bool:
        """Whether a run of a request class that lasts `limit_s` may start, as far as is known."""
        return self.now + limit_s <= self.state.memo.windows.get(request, inf)

    def _remember(self, request: RequestClass) -> None:
        """Remember which runs of a request class cannot start now."""
        self.state.memo.windows[request] = self._find_window(request)

    def _find_window(self, request: RequestClass) -> float:
        """The latest end of a run that starts now: inf on unreserved nodes, -inf if none of them fit it."""
        state, key = self.state, (request.standing, len(self.reservations))
        if key not in self._end_times:
            limits = state.zones.limits(request.standing) | self._numbers_by_start.keys()
            self._end_times[key] = [(at, self._usable_until(at)) for at in sorted(limits, reverse=True)]
        for at, usable in self._end_times[key]:
            if self._fits(request, usable, at):
                return at
        if not self._fits(request, state.board.reservations):
            state.memo.blocked.add(request)
        return -inf

    def usage_of(self, mode_queue: ModeQueue) -> float:
        if mode_queue.entity is None or self.due.past_usage is None:
            return 0.0
        return self.due.past_usage.of(mode_queue.entity)
