"""The policy of a queue that rents: whether a waiting batch run rents now, and when its money is used up.

Pure. Used by the loop of rentals and by simulations, so that both decide alike.
"""

from collections.abc import Sequence

from tarmac.model.burst.shapes import BurstRequest, Offer
from tarmac.model.changes import HOUR_S


def rents_now(run_waiting_s: float, request: BurstRequest, offers: Sequence[Offer]) -> Offer | None:
    """The offer that a batch run without an open rental takes after this wait in the queue; None: none yet.

    `offers` are in the order in which they are tried; those above its rate, or over a cap, are refused.
    """
    if request.wait_s is None or run_waiting_s <= request.wait_s:
        return None
    return next((offer for offer in offers if not offer.refused), None)


def end_at(created_at: float, rate: float, left: float | None, limit_s: float | None) -> float | None:
    """When a rental for `rate` has used up the money that is `left`, or its time limit; None: never.

    `left` and `limit_s` count from `created_at`; None: without end.
    """
    spans_s = [] if left is None or rate <= 0.0 else [max(0.0, left) / rate * HOUR_S]
    return min((created_at + span_s for span_s in [*spans_s, limit_s] if span_s is not None), default=None)
