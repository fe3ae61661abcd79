"""The shapes that a run would rent, as a table."""

from tarmac.api.placement import Why
from tarmac.cli.commands.why import explanation
from tarmac.cli.views.terminal import Terminal
from tarmac.model.burst.shapes import Offer, Shape
from tarmac.model.lifecycle import RunState

PLAIN = Terminal()


def test_why_lists_the_shapes_that_would_be_tried() -> None:
    shape = Shape(id="a", provider="p", region="r1", machine="m", rate=12.5)
    offers = (Offer(shape=shape, machines=2, rate=25.0, cost=50.0),)
    why = Why(run_id="r1", state=RunState.QUEUED, headline="queued: it rents machines", offers=offers)
    assert explanation(why, PLAIN) == (
        "queued: it rents machines\n"
        "\n"
        "shapes that it would rent, in this order\n"
        "SHAPE  REGION  EACH   MACHINES   PER HOUR    AT MOST\n"
        "a      r1      1 cpu         2  25.00 USD  50.00 USD"
    )
