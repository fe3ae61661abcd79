"""Decisions about one rental: from what its provider lists, or answers, to its next state. Pure.

    state       decided by                            next
    ---------   -----------------------------------   ------------------------------------------------------
    creating    a list with machines of it            starting
                two lists without any, in time        ended: answer_lost
    starting    a machine missing, gone or too late   releasing: half_gang, start_failed, reclaimed
    ready       a machine that is taken back          its run leaves, then releasing: reclaimed
    releasing   a list where all are gone, or two     ended
                lists without any of them

Used by `renting` and `reaping`.
"""

from collections.abc import Sequence

from tarmac.model.burst.provider import RentedThing, ThingState
from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, Run

LATE_S = 120.0
"""New machines may be missing from lists for this long: lists do not count before."""

AGAIN_S = 60.0
"""The least time between two lists that count."""

START_S = 900.0
"""The longest time until all machines are usable."""

_TAKEN = frozenset({ThingState.LEAVING, ThingState.GONE})

Trouble = tuple[RentalEnd, str]


def changed(rental: Rental, **changes: object) -> Rental:
    """The rental after one change."""
    return replace(rental, seq=rental.seq + 1, **changes)  # type: ignore[arg-type]


def after_look(rental: Rental, listed: Sequence[RentedThing], now: float) -> Rental:
    """The rental after a list, which has these things of it: the same object if nothing has changed."""
    things = _merged(rental, listed, now)
    found = rental if things == rental.things else changed(rental, things=things)
    if rental.state is RentalState.CREATING and things:
        return changed(rental, things=things, state=RentalState.STARTING, lists=0, listed_at=None)
    since = now if rental.created_at is None else rental.created_at
    if rental.state is RentalState.RELEASING and not alive(found):
        if all(each.state is ThingState.GONE for each in things):
            if alive(rental):  # the time of its end, and so its cost, is durable before it is charged
                return found
            return changed(rental, things=things, state=RentalState.ENDED, ended_at=now)
    elif rental.state is not RentalState.CREATING or now < since + LATE_S:
        return found if found.lists == 0 else changed(rental, things=things, lists=0, listed_at=None)
    if rental.listed_at is not None and now < rental.listed_at + AGAIN_S:
        return found
    if rental.lists == 0:
        return changed(rental, things=things, lists=1, listed_at=now)
    end, text = rental.end, rental.text
    if rental.state is RentalState.CREATING:
        end, text = RentalEnd.ANSWER_LOST, f"the provider's answer was lost, and nothing appeared: {text}"
    return changed(rental, things=things, state=RentalState.ENDED, ended_at=now, end=end, text=text)


def alive(rental: Rental) -> list[RentedThing]:
    """The things that may still cost money."""
    return [each for each in rental.things if each.gone_at is None]


def trouble(rental: Rental, now: float) -> Trouble | None:
    """Why the machines of a starting or ready rental are of no use, now or soon."""
    machines = rental.machines_known
    taken = [each for each in machines if _is_taken(each, now)]
    starting = rental.state is RentalState.STARTING
    if taken:
        spot = rental.shape is not None and rental.shape.spot
        end = RentalEnd.START_FAILED if starting and not spot else RentalEnd.RECLAIMED
        return end, f"the provider has taken back {len(taken)} of {len(machines)} machines, or will"
    if starting and len(machines) < rental.machines:
        return RentalEnd.HALF_GANG, f"the provider rented out {len(machines)} of {rental.machines} machines"
    if starting and now >= (rental.created_at or now) + START_S:
        return RentalEnd.START_FAILED, f"the machines were not usable within {START_S / 60:g} minutes"
    return None


def usable(rental: Rental) -> bool:
    """Whether its cluster can be started on its machines."""
    machines = rental.machines_known
    return all(each.state is ThingState.RUNNING and each.address for each in machines) and bool(machines)


def disuse(rental: Rental, run: Run | None, attempt: Attempt | None) -> Trouble | None:
    """Why the run of a rental needs no machines; None if it waits for them, or is on them."""
    if run is None or run.state is RunState.ENDED:
        return RentalEnd.RUN_ENDED, "the run has ended"
    if attempt is not None and attempt.allocation.cluster == rental.cluster:
        return None
    if run.state in (RunState.PENDING, RunState.QUEUED):
        return None
    return RentalEnd.UNUSED, "the run is paused" if attempt is None else "the run is on another cluster"


def unplaced(rental: Rental, run: Run | None, attempt: Attempt | None, now: float) -> Trouble | None:
    """Why a cluster is of no use to the run that waits for it: the machines may be less than their shape."""
    if attempt is not None or run is None or run.retry is not None or rental.ready_at is None:
        return None
    if now < max(rental.ready_at, run.queued_at or 0.0) + START_S:
        return None
    return RentalEnd.START_FAILED, f"the run found no place on them within {START_S / 60:g} minutes"


def released(rental: Rental, end: Trouble, now: float) -> Rental:
    """The rental whose machines are given back from now on; an earlier reason stays."""
    code, text = end if rental.end is None else (rental.end, rental.text)
    state, at = RentalState.RELEASING, now
    return changed(rental, state=state, end=code, text=text, releasing_at=at, lists=0, listed_at=None)


def ended(rental: Rental, end: Trouble, now: float) -> Rental:
    """The rental of which nothing exists."""
    code, text = end
    return changed(rental, state=RentalState.ENDED, end=code, text=text, ended_at=now)


def _is_taken(thing: RentedThing, now: float) -> bool:
    gone = thing.gone_at is not None and now >= thing.gone_at + AGAIN_S  # missing once may be a mistake
    return gone or thing.state in _TAKEN or thing.notice_at is not None


def _merged(rental: Rental, listed: Sequence[RentedThing], now: float) -> tuple[RentedThing, ...]:
    """Its things as they were listed; those that are missing, or gone, have the time of that.

    A machine that was deleted was gone once the provider had accepted that. A new one may be missing.
    """
    known = {each.id: each for each in rental.things}
    found = {each.id: each for each in listed}
    gone_at = now if rental.deleted_at is None else rental.deleted_at
    may_appear = rental.deleted_at is None and now < (rental.created_at or now) + LATE_S
    merged = []
    for each in {**known, **found}.values():
        before = known.get(each.id)
        was_gone_at = None if before is None else before.gone_at
        missing = each.id not in found
        if missing and each.state is ThingState.PENDING and may_appear:
            merged.append(each)
        elif missing or each.state is ThingState.GONE:
            merged.append(replace(each, gone_at=gone_at if was_gone_at is None else was_gone_at))
        else:
            merged.append(replace(each, gone_at=None))
    return tuple(merged)
