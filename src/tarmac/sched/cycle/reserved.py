"""Nodes of a pool that a cycle reserves, and what their runs leave free there. Kept by `pool_cycle`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tarmac.sched.placing.fitting import Part
from tarmac.sched.placing.space import NOBODY, Ghosts, Space, Spare


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes of a pool reserved for a run that is to start there at `at` (inf: unknown).

    `spare` is what it leaves free on them, for others that end later.
    """

    run_id: str
    at: float
    nodes: tuple[str, ...]
    number: int
    spare: tuple[tuple[str, Spare], ...] = ()


class SpareRoom:
    """The spare room on reserved nodes, less the runs that start there in this cycle."""

    __slots__ = ("_ghosts", "_left", "_spaces")

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self._spaces = spaces
        self._left: dict[str, tuple[int, Spare]] = {}
        self._ghosts: dict[tuple[int, ...], dict[Space, Space]] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, reservation: Reservation) -> None:
        """Add the spare room of a new reservation."""
        self._left.update((name, (reservation.number, left)) for name, left in reservation.spare)
        self._ghosts.clear()

    def take(self, parts: Iterable[Part]) -> None:
        """Take the parts that are on copies of `beside`."""
        for part in parts:
            name = part.space.node.name
            if part.space is not self._spaces[name]:
                self._left[name] = self._left[name][0], part.space.less(part.need.times(part.count)).spare
        self._ghosts.clear()

    def beside(self, reservations: Sequence[int]) -> Ghosts:
        """The spare room on the nodes of other reservations than these, as copies of their spaces."""
        if not self._left:
            return NOBODY
        key = tuple(reservations)
        if key not in self._ghosts:
            self._ghosts[key] = {
                space: space.at_most(left)
                for space, (number, left) in ((self._spaces[name], each) for name, each in self._left.items())
                if number not in key
            }
        return self._ghosts[key]
