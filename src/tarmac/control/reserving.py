"""Reservations of nodes: resolves the nodes that a person means, refuses overlaps. Used through `service`."""

from tarmac.api.cluster_operations import ReserveBody
from tarmac.api.clusters import NodeRun, Reservation
from tarmac.control.draining import NAMES_SHOWN, chosen_nodes
from tarmac.control.permissions import Action, check, may_see
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.control.state.facts import holding_of
from tarmac.model.actor import Actor
from tarmac.model.codec import inherited, replace
from tarmac.model.errors import InvalidInput, NotFound, Refused, listed, suggestion
from tarmac.model.reservations import ReservationTerms, ReservedNodes
from tarmac.sched import ends


class NodeReservations:
    """The reservations of the nodes of a control plane."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    def all(self, actor: Actor) -> list[Reservation]:
        """The reservations that have not ended, by their begin."""
        check(actor, Action.READ)
        return [self._report(actor, each) for each in self._current()]

    def make(self, actor: Actor, body: ReserveBody) -> Reservation:
        """Reserve these nodes, all or none; repeating it has no effect.

        Raises InvalidInput for a time that is over, NotFound for nodes that do not exist, and Refused where
        another reservation has the name, or one of the nodes at the time.
        """
        check(actor, Action.MANAGE)
        control, now = self._control, self._control.clock.now()
        if control.engines.delegate_of(body.choice.cluster) is not None:
            raise Refused(f"cluster {body.choice.cluster} reserves its nodes itself", hint=SCONTROL)
        with control.lock:
            known = self._current()
            new = ReservedNodes(
                **inherited(ReservationTerms, body),
                name=body.name,
                nodes=tuple(sorted(chosen_nodes(control.nodes(), body.choice))),
                end_at=body.begin_at + body.duration_s,
                user=actor.user,
                at=now,
            )
            if new.end_at <= now:
                raise InvalidInput("the time of the reservation is over", hint="choose a later begin")
            for each in known:
                if replace(new, user=each.user, at=each.at) == each:
                    return self._report(actor, each)
                _refuse_overlap(new, each)
            for each in control.store.reservations():
                if each.end_at <= now:
                    control.store.remove_reservation(each.name)
            control.store.put_reservation(new)
            self._changed()
        return self._report(actor, new)

    def release(self, actor: Actor, name: str) -> Reservation:
        """End a reservation now, or cancel it, and return it; raises NotFound."""
        check(actor, Action.MANAGE)
        with self._control.lock:
            known = {each.name: each for each in self._current()}
            if name not in known:
                hint = suggestion(
                    name, known, f"reservations: {listed(sorted(known), NAMES_SHOWN) or 'none'}"
                )
                raise NotFound(f"there is no reservation {name!r}", hint=hint)
            self._control.store.remove_reservation(name)
            self._changed()
        return self._report(actor, known[name])

    def _current(self) -> list[ReservedNodes]:
        now = self._control.clock.now()
        return [each for each in self._control.store.reservations() if each.end_at > now]

    def _changed(self) -> None:
        self._control.look_at_clusters()
        self._control.event_bus.notify(Wakeup.SCHEDULE)

    def _report(self, actor: Actor, reservation: ReservedNodes) -> Reservation:
        """The reservation, with the visible runs on its nodes that it does not admit and that may stay."""
        names, stay = set(reservation.nodes), []
        for run, attempt in self._control.live():
            parts = [part for part in attempt.current_allocation.placements if part.node in names]
            if not parts or reservation.admits(run.user, run.project) or not may_see(actor, run):
                continue
            if ends(holding_of(run, attempt), None)[0] > reservation.begin_at:
                indexes = tuple(index for part in parts for index in part.slots)
                stay.append(
                    NodeRun(id=run.id, name=run.name, user=run.user, slots=len(indexes), indexes=indexes)
                )
        return Reservation(**inherited(ReservedNodes, reservation), still_there=tuple(stay))


SCONTROL = "use the reservations of its own scheduler; for a Slurm: scontrol create reservation"


def _refuse_overlap(new: ReservedNodes, other: ReservedNodes) -> None:
    hint = f"tarmac nodes release {other.name} ends that one"
    if new.name == other.name:
        raise Refused(f"there is already a reservation {other.name}", hint=hint)
    shared = sorted({*new.nodes} & {*other.nodes})
    if shared and other.begin_at < new.end_at and new.begin_at < other.end_at:
        nodes = listed(shared, NAMES_SHOWN)
        raise Refused(f"reservation {other.name} has {nodes} at that time", hint=hint)
