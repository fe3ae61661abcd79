"""Rates of the market, through gpuhunt: an extra that is imported when it is asked. Used by `shapes`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tarmac.model.burst.shapes import Shape
from tarmac.model.codec import inherited
from tarmac.model.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from gpuhunt import CatalogItem

CATALOGUE = "GPUHUNT_CATALOG_DIR"
CURRENCY = "USD"


def present_rates(
    shapes: Sequence[Shape], providers: Sequence[str], today: str
) -> tuple[list[Shape], list[str]]:
    """The shapes of which gpuhunt has an offer, with its rate, and the ids of the others.

    An offer is of the same machine, region and kind, with as many GPUs; of several, the cheapest counts.
    """
    prices: dict[tuple[str, str, bool, int], float] = {}
    for offer in _offers(providers):
        key = offer.instance_name, offer.location, offer.spot, offer.gpu_count
        prices[key] = min(offer.price, prices.get(key, offer.price))
    rated, unknown = [], []
    for shape in shapes:
        price = prices.get((shape.machine, shape.region, shape.spot, shape.accelerators))
        if price is None or shape.currency != CURRENCY:
            unknown.append(shape.id)
        else:
            rated.append(Shape(**inherited(Shape, shape) | {"rate": price, "rated_on": today}))
    return rated, unknown


def _offers(providers: Sequence[str]) -> list[CatalogItem]:
    """The offers of these providers, or of all that gpuhunt can ask here."""
    if find_spec("gpuhunt") is None:
        hint = f"pip install 'tarmac[shapes]' for {sys.executable}; without it, tarmac shapes refresh asks"
        raise Unavailable("--gpuhunt needs gpuhunt, and it is not installed here", hint=f"{hint} providers")
    import gpuhunt

    logging.getLogger("gpuhunt").setLevel(logging.CRITICAL)  # it logs the tracebacks of what is raised below
    try:
        local = os.environ.get(CATALOGUE)
        catalogue = gpuhunt.Catalog(auto_reload=False) if local else gpuhunt.default_catalog()
        found: list[CatalogItem] = catalogue.query(provider=[*providers] or None)
    except ValueError as error:
        raise InvalidInput(
            f"gpuhunt: {error}", hint="some need keys in your shell, as VAST_API_KEY"
        ) from None
    except (gpuhunt.GPUHuntError, OSError) as error:
        raise Unavailable(
            f"gpuhunt: {error}",
            hint=f"without its catalogue, set {CATALOGUE} to a directory that `python -m gpuhunt` has filled",
        ) from None
    return found
