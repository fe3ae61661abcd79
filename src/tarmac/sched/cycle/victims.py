"""The fewest holders that have to leave before a run fits. Called by `preempting`.

The candidates come in order of preemption. The scheduler assumes that they are released until the run fits,
then restores each, the last first, and keeps it if the run still fits. It checks only nodes that change; for
a request that can be counted it checks only the number of free slots on each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from tarmac.sched.index.forecast import Future, Holder, soonest
from tarmac.sched.index.queues import RequestClass
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.fitting import Count, Tally, Way
from tarmac.sched.placing.space import OPEN, Load, Space

FIRST_LOOK = 16
"""The number of holders in the first step if nodes must be chosen; later steps take more.

Few suffice mostly.
"""

Found = tuple[list[Holder], tuple[str, ...]]
"""The holders that have to leave, and the nodes where the run then fits."""


def fewest(
    request: RequestClass, victims: Iterable[Holder], *, leaving: Sequence[Holder], board: PoolBoard
) -> Found | None:
    """The holders that a run needs to leave beside the leaving ones; None if all of them do not suffice."""
    if request.count is None:
        return _by_choosing(request, victims, leaving=leaving, board=board)
    releases = _Releases(request.count, board)
    needed = _by_counting(releases, victims, leaving=leaving)
    if needed is None:
        return None
    way = releases.tally.way
    if way is not None and len(request.demands) == 1 and not board.spread:
        return needed, releases.nodes(way)
    nodes = _nodes(request, _future(board, chain(leaving, needed)))
    return None if nodes is None else (needed, nodes)


def _by_counting(
    releases: _Releases, victims: Iterable[Holder], *, leaving: Sequence[Holder]
) -> list[Holder] | None:
    for holder in leaving:
        releases.release(holder)
    released: list[Holder] = []
    if not releases.tally.fits():
        for holder in victims:
            if releases.release(holder):
                released.append(holder)
                if releases.tally.fits():
                    break
        else:
            return None
    needed, counted = [], releases.counted()
    for holder in reversed(released):
        if not holder.loads.keys().isdisjoint(counted) and not releases.restore(holder):
            needed.append(holder)
    needed.reverse()
    return needed


class _Releases:
    """The free slots on the counted nodes, while holders are released and restored."""

    __slots__ = ("_board", "_buckets", "_freed", "tally")

    def __init__(self, count: Count, board: PoolBoard) -> None:
        self._board = board
        self._buckets = set(board.buckets_of(count.shard, count.slot_type))
        self._freed: dict[str, int] = {}
        self.tally = Tally(count, board.at_least(count.shard, count.slot_type))

    def counted(self) -> set[str]:
        """The nodes with released holders that count as long as the request fits."""
        least, spaces = self.tally.least, self._board.spaces
        return {name for name, mask in self._freed.items() if spaces[name].free + mask.bit_count() >= least}

    def release(self, holder: Holder) -> bool:
        """Release a holder; True if that frees slots on counted nodes."""
        changed, spaces, freed, change = False, self._board.spaces, self._freed, self.tally.change
        for name, load in holder.loads.items():
            space = spaces.get(name)
            if space is None or space.reserved != OPEN or space.bucket not in self._buckets:
                continue
            mask = load.slots & space.taken & ~space.node.drained_slots
            if mask:
                before, free = freed.get(name, 0), space.free
                freed[name] = after = before | mask
                change(free + before.bit_count(), free + after.bit_count())
                changed = True
        return changed

    def restore(self, holder: Holder) -> bool:
        """Undo a release if the request still fits then; False if it does not."""
        freed, spaces, tally = self._freed, self._board.spaces, self.tally
        for name, load in holder.loads.items():
            if before := freed.get(name, 0):
                free, after = spaces[name].free, before & ~load.slots
                most, least = free + before.bit_count(), free + after.bit_count()
                if len(holder.loads) == 1 and not tally.fits_after(most, least):
                    return False
                freed[name] = after
                tally.change(most, least)
        if not tally.fits():
            self.release(holder)
            return False
        return True

    def nodes(self, way: Way) -> tuple[str, ...]:
        """The nodes where the request fits after the releases, split in this way: those of `View.first`."""
        (nodes, slots), freed, spaces = way, self._freed, self._board.spaces
        after = {name: spaces[name].free + mask.bit_count() for name, mask in freed.items()}
        found = [(free, spaces[name].order, name) for name, free in after.items() if free >= slots]
        for bucket in self._buckets:
            start = bisect_left(bucket.open, (slots,))
            for free, order, space in bucket.open[start : start + nodes + len(freed)]:
                if space.node.name not in freed:
                    found.append((free, order, space.node.name))
        return tuple(name for _, name in sorted(each[1:] for each in sorted(found)[:nodes]))


def _by_choosing(
    request: RequestClass, victims: Iterable[Holder], *, leaving: Sequence[Holder], board: PoolBoard
) -> Found | None:
    """`fewest` for requests that need a choice of nodes."""
    more = iter(victims)
    room = board.free[None] + sum(holder.slots for holder in leaving)
    looked: list[Holder] = []
    look = FIRST_LOOK
    while True:
        new = list(islice(more, look))
        looked += new
        room += sum(holder.slots for holder in new)
        if room >= request.slots:
            releases = [(holder.ends, holder) for holder in (*leaving, *looked)]
            forecast = soonest(request, board=board, releases=releases)
            if forecast is not None:
                nodes = set(forecast.nodes)
                first = looked[: max(0, forecast.ended - len(leaving))]
                needed = [holder for holder in first if not nodes.isdisjoint(holder.loads)]
                return _spared(request, needed, leaving=leaving, board=board)
        if len(new) < look:
            return None
        look *= 4


def _spared(
    request: RequestClass, enough: list[Holder], *, leaving: Sequence[Holder], board: PoolBoard
) -> Found | None:
    """Restore the holders that are not needed."""
    future = _future(board, chain(leaving, enough))
    on_node: dict[str, dict[str, Load]] = {}
    for holder in (*leaving, *enough):
        for name, load in holder.loads.items():
            on_node.setdefault(name, {})[holder.ends[2]] = load
    nodes = _nodes(request, future)
    needed = []
    for holder in reversed(enough):
        before = {name: on_node[name].pop(holder.ends[2]) for name in holder.loads}
        changed = [space for name in holder.loads if (space := board.spaces.get(name)) in future.ghosts]
        for space in changed:
            _lay_anew(future, space, on_node[space.node.name].values())
        found = _nodes(request, future)
        if found is not None:
            nodes = found
            continue
        needed.append(holder)
        for name, load in before.items():
            on_node[name][holder.ends[2]] = load
        for space in changed:
            _lay_anew(future, space, on_node[space.node.name].values())
    needed.reverse()
    return None if nodes is None else (needed, nodes)


def _lay_anew(future: Future, space: Space, released: Iterable[Load]) -> None:
    """Release exactly these loads on a node. Adding and subtracting fractions would leave rounding errors."""
    ghost = future.ghosts[space] = space.copy()
    for load in released:
        ghost.give(load)


def _future(board: PoolBoard, released: Iterable[Holder]) -> Future:
    future = Future(board)
    for holder in released:
        future.release(holder)
    return future


def _nodes(request: RequestClass, future: Future) -> tuple[str, ...] | None:
    """The nodes where a run then fits."""
    parts = request.fit(future.view(request.target))
    return None if parts is None else tuple(dict.fromkeys(part.space.node.name for part in parts))
