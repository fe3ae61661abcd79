"""Sentences on a run that waits for rented machines, for `tarmac why`. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tarmac.control.burst.choosing import next_offer
from tarmac.control.burst.market import Market
from tarmac.model.burst.rentals import Rental, RentalState
from tarmac.model.burst.shapes import Offer
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run
from tarmac.sched import duration

TRIES_NAMED = 8


class Explanation(NamedTuple):
    """A headline, and what happens next."""

    headline: str
    then: str = ""


def explanation(run: Run, market: Market, troubles: Mapping[str, str]) -> Explanation | None:
    """The reason of a wait for rented machines; None for another. `troubles`: of providers, by name."""
    rentals = market.of_run(run.id)
    current = next((each for each in reversed(rentals) if each.open), None)
    if run.state is not RunState.QUEUED or run.awaits or not (run.spec.is_burst or current):
        return None
    found = market.offers(run)
    if current is None and not rentals:
        if not market.rules.approval:
            return Explanation("queued: machines are about to be rented for it", listed(found))
        who = ", by an admin" if market.rules.admins_approve else ""
        then = f"tarmac burst approve {run.id} approves it{who}. {listed(found)}"
        return Explanation("staged: it is a burst run, and waits until someone approves the machines", then)
    past = [each for each in rentals if not each.open]
    tried = "; ".join(_tried(each) for each in past[-TRIES_NAMED:])
    so_far = f" Tried so far: {tried}." if tried else ""
    if current is None or current.state is RentalState.REQUESTED:
        return Explanation(f"queued: {_next(found, past, market.now)}", f"{listed(found)}{so_far}".strip())
    shape = current.shape.id if current.shape is not None else "?"
    provider = current.shape.provider if current.shape is not None else ""
    silent = (
        f". Provider {provider} does not answer now: {troubles[provider]}" if provider in troubles else ""
    )
    because = f": {current.text}" if current.text else ""
    what = f"{current.machines} x {shape}, {current.rate:g} an hour"
    return Explanation(f"queued: {_DOING[current.state]} ({what}){because}{silent}", so_far.strip())


_DOING = {
    RentalState.CREATING: "its machines are being rented",
    RentalState.STARTING: "its rented machines are being started",
    RentalState.READY: "its rented machines are a cluster, on which it is placed next",
    RentalState.RELEASING: "machines are being given back before others are rented",
}


def listed(found: Sequence[Offer]) -> str:
    """The shapes that are tried, in their order, and the others with the reason."""
    texts = [_offer(each) for each in found if not each.refused]
    refused = [f"{each.shape.id}: {each.refused}" for each in found if each.refused]
    tried = [f"Shapes that are tried, in this order: {', '.join(texts)}."] if texts else []
    return " ".join([*tried, *([f"Not rented: {'; '.join(refused)}."] if refused else [])])


def _offer(offer: Offer) -> str:
    cost = "" if offer.cost is None else f", at most {offer.cost:.2f} until the time limit"
    return f"{offer.machines} x {offer.shape.id} ({offer.rate:g} an hour{cost})"


def _next(found: Sequence[Offer], past: Sequence[Rental], now: float) -> str:
    offer, at = next_offer(found, past, now)
    if offer is None:
        return "it waits for machines, and none may be rented for it now"
    when = f"in about {duration(at - now)}" if at > now + 1.0 else "now"
    return f"it waits for machines: {_offer(offer)} is tried {when}"


def _tried(rental: Rental) -> str:
    shape = rental.shape.id if rental.shape is not None else "nothing"
    text = f" ({rental.text})" if rental.text else ""
    return f"{shape}: {rental.end}{text}"


def rule(run: Run, found: Sequence[Offer], now: float) -> str:
    """When a batch run in the queue rents machines, unless it starts before."""
    wait_s = run.spec.burst.wait_s if run.spec.burst is not None else None
    if wait_s is None or run.queued_at is None:
        return ""
    if not any(not each.refused for each in found):
        return "It would rent machines after its wait, and none may be rented for it now."
    left_s = run.queued_at + wait_s - now
    when = f"in about {duration(left_s)}" if left_s > 1.0 else "now"
    return f"It rents machines {when}, if it still waits then."
