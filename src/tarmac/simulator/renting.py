"""Jobs of a play that rent machines: a declaration of the rule and its rates, and the rentals by it.

The declaration is the text of `tarmac simulate --burst`. `control/burst/choosing` decides whether a job
rents, as on a server. A job that rents leaves the queue, and runs to its end on machines of its own. Its
whole cost counts at once, so the budget of all jobs is never exceeded. Used by `playing`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tarmac.control.burst.choosing import offers, rents_now
from tarmac.dialects import kinds
from tarmac.dialects.located import Problems
from tarmac.dialects.native.burst import LARGEST_BUDGET, RATE, SHAPE_ID, WAIT
from tarmac.dialects.quantities import duration_s
from tarmac.dialects.schema import Field, attributes, read_fields, record, section_of, tuple_of
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.burst.shapes import BurstRequest, Offer, Shape
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import RunSpec
from tarmac.simulator.record import Record, RentedMachines

START_UP_S = 480.0
"""How long rented machines take to become a cluster, if the declaration has no `start_up`."""

LOOK_S = 1.0
"""A job rents this long after its wait is over: the rule is that it has waited for longer."""


class BurstRules(Struct, frozen=True, kw_only=True):
    """When jobs of a play rent, and what is rented out; `budget` is that of all jobs together."""

    request: BurstRequest
    shapes: tuple[Shape, ...]
    budget: float | None = None
    start_up_s: float = START_UP_S

    def offers(self, spec: RunSpec, longest_s: float, spent: float) -> list[Offer]:
        """The offers for a job that works for this long at most; refused where the budget is too small."""
        limited = replace(spec, time_limit_s=self.start_up_s + longest_s)
        return [self._within_budget(each, spent) for each in offers(self.request, limited, self.shapes)]

    def _within_budget(self, offer: Offer, spent: float) -> Offer:
        if offer.refused or self.budget is None or spent + (offer.cost or 0.0) <= self.budget:
            return offer
        return replace(offer, refused=f"{offer.cost:.2f} is more than is left of the budget")


def _either(section: Section, _found: Mapping[str, Any]) -> None:
    section.exclude("shapes", "rate", reason="a rate for each slot and hour takes the place of shapes")
    if "shapes" not in section and "rate" not in section:
        section.missing("rate", "money for each slot and hour, as in rate: 2.50/h, or a list of shapes")


SHAPE = record(
    {
        "id": Field(SHAPE_ID, required="the id of a shape"),
        "slots": Field(kinds.integer(1, 1024), required="the slots of one machine"),
        "rate": Field(RATE, required="money for one machine and hour, as in rate: 20.00/h"),
    },
    make=lambda **given: Shape(provider="simulated", region="", machine=given["id"], **given),
)
DECLARATION = record(
    {
        "when": Field(WAIT, sets="wait_s", required="after which wait a job rents, as in when: wait > 2h"),
        "below": RATE,
        "budget": kinds.number(above=0, maximum=LARGEST_BUDGET),
        "start_up": Field(duration_s(), sets="start_up_s"),
        "rate": RATE,
        "shapes": tuple_of(
            SHAPE,
            "a list of mappings with id, slots and rate",
            least=1,
            twice=(lambda shape: shape.id, "the id {!r} occurs here a second time"),
        ),
    },
    _either,
)


def read_rules(source: str, *, filename: str = "--burst") -> BurstRules:
    """The rules in a declaration; on one line its braces may be missing. Raises InvalidInput."""
    if "\n" not in source.strip() and not source.lstrip().startswith("{"):
        source = f"{{{source}}}"
    problems = Problems(filename)
    tree = compose_table(source, problems, "fields such as 'when: wait > 2h' are")
    section = section_of(Value(tree, "", problems), DECLARATION)
    assert section is not None, "the tree is a mapping"
    given = attributes(read_fields(section, DECLARATION), DECLARATION)
    problems.raise_any()
    rate = given.pop("rate", 0.0)
    shapes = given.pop("shapes", (Shape(id="slot", provider="", region="", machine="", rate=rate),))
    request = BurstRequest(wait_s=given.pop("wait_s"), below=given.pop("below", None))
    return BurstRules(request=request, shapes=shapes, **given)


class Renting:
    """The jobs of a play that wait until they rent, and those on rented machines."""

    def __init__(self, rules: BurstRules, record: Record) -> None:
        self._rules = rules
        self._record = record
        self._waits: list[tuple[float, int, float]] = []  # when it may rent, its number, since when it waits
        self._rentals: list[tuple[float, int, float]] = []  # its end, its number, what is unspent then
        self._spent = 0.0

    def next_at(self) -> float | None:
        """The time of the next decision, or end of a job on rented machines."""
        while self._waits and not self._is_waiting(*self._waits[0][1:]):
            heapq.heappop(self._waits)
        return min((heap[0][0] for heap in (self._waits, self._rentals) if heap), default=None)

    def due(self, now: float) -> Iterator[int]:
        """The jobs that have waited long enough now; ends those whose work on rented machines is over."""
        for number in self._record.take_queued():
            passage, wait_s = self._record.passages[number], self._rules.request.wait_s
            if passage.job.mode is Mode.BATCH and passage.queued_at is not None and wait_s is not None:
                heapq.heappush(self._waits, (passage.queued_at + wait_s + LOOK_S, number, passage.queued_at))
        while self._rentals and self._rentals[0][0] <= now:
            at, number, unspent = heapq.heappop(self._rentals)
            self._record.returned(number, at)
            self._spent -= unspent
        while self._waits and self._waits[0][0] <= now:
            _, number, since = heapq.heappop(self._waits)
            if self._is_waiting(number, since):
                yield number

    def rents(self, number: int, spec: RunSpec, now: float, work_s: float, limit_s: float | None) -> bool:
        """Whether a waiting job rents now; its machines then have it until its work or its limit is over."""
        passage, rules = self._record.passages[number], self._rules
        assert passage.queued_at is not None, "it is queued"
        longest_s = work_s if limit_s is None else limit_s
        found = rules.offers(spec, longest_s, self._spent)
        offer = rents_now(now - passage.queued_at, rules.request, found)
        if offer is None:
            self._record.without_offer.add(number)
            return False
        begins_at = now + rules.start_up_s
        ends_at = begins_at + min(work_s, longest_s)
        machines = RentedMachines(
            machines=offer.machines,
            rate=offer.rate,
            rented_at=now,
            begins_at=begins_at,
            ends_at=ends_at,
            failed=longest_s < work_s,
        )
        self._record.rented(number, machines)
        assert offer.cost is not None, "its longest time is known"
        self._spent += offer.cost
        heapq.heappush(self._rentals, (ends_at, number, offer.cost - machines.cost(ends_at)))
        return True

    def _is_waiting(self, number: int, since: float) -> bool:
        return self._record.passages[number].queued_at == since
