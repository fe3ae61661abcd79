"""Reservations of nodes for a time, as facts. Made by `control.reserving`; `sched` places by them."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from tarmac.model.codec import inherited

LATEST_S = 1e11
"""The latest begin, and the longest time, in seconds: calendars reach a little further."""


class ReservationTerms(Struct, frozen=True, kw_only=True):
    """From `begin_at` on only runs of these users and projects use the nodes; without any, no run does.

    Other runs that are still there at the begin continue, except if their mode or pool lets the scheduler
    preempt them; with `preempt` all of them are preempted.
    """

    begin_at: Annotated[float, Meta(ge=0, le=LATEST_S)]
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    reason: Annotated[str, Meta(max_length=500)] = ""
    preempt: bool = False


class NodeReservation(ReservationTerms, frozen=True, kw_only=True):
    """A reservation as a fact of one of its nodes, until `end_at`. `user` made it, at `at`.

    Before its begin other runs start there only if they have to leave by then.
    """

    name: str
    end_at: float
    user: str | None = None
    at: float

    def admits(self, owner: str, project: str) -> bool:
        """Whether runs of this owner and project may use the nodes."""
        return owner in self.users or project in self.projects

    @property
    def purpose(self) -> str:
        """The runs that may use the nodes, in words."""
        admitted = [f"user {user}" for user in self.users] + [f"project {name}" for name in self.projects]
        return f"reserved for {' and '.join(admitted)}" if admitted else "closed to all runs"


class ReservedNodes(NodeReservation, frozen=True, kw_only=True):
    """A stored reservation, with the names of its nodes."""

    nodes: tuple[str, ...]


Reserved = dict[str, tuple[NodeReservation, ...]]
"""The reservations of nodes, by the names of these."""


def by_node(reservations: Iterable[ReservedNodes]) -> Reserved:
    """The reservations of each node, in the same order."""
    found: Reserved = {}
    for each in reservations:
        reservation = NodeReservation(**inherited(NodeReservation, each))
        found |= {name: (*found.get(name, ()), reservation) for name in each.nodes}
    return found


def in_order(reservation: NodeReservation) -> tuple[float, str]:
    """Sort key: the first to begin first."""
    return reservation.begin_at, reservation.name
