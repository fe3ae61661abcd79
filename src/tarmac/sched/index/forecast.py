"""When a run that does not fit now could start: the future board, one ended run after another.

Used by `queue_walk` (which nodes to reserve) and by `explain`. A run ends at its time limit or the end of its
turn; a run without either ends later than all others. Among the latter, the one granted first is taken to end
first: the order is fixed, so the list of awaited runs only shrinks.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from tarmac.model.cluster import Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Target
from tarmac.sched.facts import Holding
from tarmac.sched.index.queues import RequestClass, limit_s
from tarmac.sched.placing.board import PoolBoard, PoolKey
from tarmac.sched.placing.fitting import Count, Part, Tally, Way
from tarmac.sched.placing.space import OPEN, Load, Space, Spare
from tarmac.sched.placing.view import View

ReleaseKey = tuple[float, float, str]
"""The end of a holding (-inf: it is leaving, inf: unknown), its grant time, and the run's id."""


@dataclass(slots=True, eq=False)
class Holder:
    """A run that holds slots: its loads by node, and the key of its end."""

    holding: Holding
    loads: dict[str, Load]
    pools: tuple[PoolKey, ...]
    ends: ReleaseKey
    slots: int = field(init=False)

    def __post_init__(self) -> None:
        self.slots = sum(load.slots.bit_count() for load in self.loads.values())


Releases = Sequence[tuple[ReleaseKey, Holder]]
"""Holdings in the order of their ends."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run could start at `at` (inf: unknown) on `nodes`, after the first `ended` releases.

    `spare` has what it then leaves free there, for the nodes on which it leaves slots.
    """

    at: float
    nodes: tuple[str, ...]
    ended: int
    spare: tuple[tuple[str, Spare], ...] = ()


def ends(holding: Holding, rules: Pool | None) -> ReleaseKey:
    """The end of a holding, as far as is known."""
    candidate = holding.candidate
    order = (holding.granted_at, candidate.run_id)
    if holding.leaving:
        return -inf, *order
    left_s = limit_s(candidate)
    if candidate.mode is Mode.CYCLE and rules is not None:
        left_s = min(left_s, rules.turn_s)
    began_at = holding.granted_at if holding.started_at is None else holding.started_at
    return began_at + left_s, *order


def left_at(holders: Iterable[Holder], now: float) -> float:
    """The time by which these holders have left if they are preempted now (-inf: none are given)."""
    return max((now + holder.holding.grace_s for holder in holders), default=-inf)


def awaited(forecast: Forecast, releases: Releases) -> list[Holder]:
    """The holdings on the nodes of a forecast that have to end first."""
    nodes = set(forecast.nodes)
    return [holder for _, holder in releases[: forecast.ended] if not nodes.isdisjoint(holder.loads)]


def soonest(
    request: RequestClass, *, board: PoolBoard, releases: Releases, most: int | None = None
) -> Forecast | None:
    """The first time at which the open nodes fit a run; None if they never do.

    That is the time of the last release it waits for, which may be in the past (-inf: no wait). `most` limits
    the number of releases that are considered.
    """
    future = Future(board)
    most = len(releases) if most is None else most
    way: Way | None = None
    if request.count is not None:
        ended, way = _sweep(request.count, future, releases, most)
    else:
        ended = _search(request, future, releases, most=most)
    if ended is None:
        return None
    parts = request.fit(future.view(request.target), way)
    if parts is None:
        return None
    nodes = tuple(dict.fromkeys(part.space.node.name for part in parts))
    at = releases[ended - 1][0][0] if ended else -inf
    return Forecast(at=at, nodes=nodes, ended=ended, spare=tuple(_spare(parts)))


def _spare(parts: Iterable[Part]) -> Iterator[tuple[str, Spare]]:
    """The resources beside these parts on their nodes, for the nodes on which slots are left."""
    left: dict[str, Space | None] = {}
    for part in parts:
        name, need = part.space.node.name, part.need.times(part.count)
        space = left.get(name, part.space)
        left[name] = space.less(need) if space is not None and space.free > need.slots else None
    for name, space in left.items():
        if space is not None:
            yield name, space.spare


class Future:
    """The future nodes of a pool: copies of changed nodes take the place of those on the board."""

    __slots__ = ("board", "ghosts")

    def __init__(self, board: PoolBoard) -> None:
        self.board = board
        self.ghosts: dict[Space, Space] = {}

    def release(self, holder: Holder) -> None:
        """Apply the end of this holding."""
        for name, load in holder.loads.items():
            space = self.board.spaces.get(name)
            if space is not None and space.bucket is not None and space.reserved == OPEN:
                self.ghost(space).give(load)

    def ghost(self, space: Space) -> Space:
        """The copy that replaces a space."""
        ghost = self.ghosts.get(space)
        if ghost is None:
            ghost = self.ghosts[space] = space.copy()
        return ghost

    def view(self, target: Target) -> View:
        """A view of the open nodes that a target allows."""
        return View.of(self.board, target, ghosts=self.ghosts)


def _sweep(count: Count, future: Future, releases: Releases, most: int) -> tuple[int | None, Way | None]:
    """The number of releases after which it fits and the way, by counting; `future` then includes them."""
    board = future.board
    at_least = board.at_least(count.shard, count.slot_type)
    if count.fits(at_least):
        return 0, count.way(at_least)
    tally, buckets = Tally(count, at_least), set(board.buckets_of(count.shard, count.slot_type))
    for ended, (_, holder) in enumerate(islice(releases, most), start=1):
        for name, load in holder.loads.items():
            space = board.spaces.get(name)
            if space is None or space.reserved != OPEN or space.bucket not in buckets:
                continue
            ghost = future.ghost(space)
            before = ghost.free
            ghost.give(load)
            tally.change(before, ghost.free)
        if tally.fits():
            return ended, tally.way
    return None, None


def _search(request: RequestClass, future: Future, releases: Releases, *, most: int) -> int | None:
    """The number of releases after which it fits, by doubling and bisection; `future` then includes them."""

    def fits_after(ended: int) -> bool:
        future.ghosts.clear()
        for _, holder in releases[:ended]:
            future.release(holder)
        return request.fit(future.view(request.target)) is not None

    if fits_after(0):
        return 0
    reach = 1
    while reach < most and not fits_after(reach):
        reach *= 2
    reach = min(reach, most)
    ended = bisect_left(range(reach), True, lo=reach // 2, key=fits_after)
    return ended if fits_after(ended) else None
