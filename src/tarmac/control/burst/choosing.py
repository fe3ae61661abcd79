"""The shapes that a run may rent, in their order, the one that is tried next, when, and for how long. Pure.

Used by `market`, `renting` and `telling`, and by simulations, which so decide alike.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tarmac.control.burst.charging import Purse
from tarmac.control.decisions.counting import doubled_s
from tarmac.control.state.facts import candidate_of, shape_of
from tarmac.model.burst.rentals import Rental, RentalEnd
from tarmac.model.burst.shapes import BurstRequest, Offer, Shape
from tarmac.model.changes import HOUR_S
from tarmac.model.cluster import Node
from tarmac.model.lifecycle import RunState
from tarmac.model.people.limits import Cap, SlotUse, matching
from tarmac.model.resources import CPU_ONLY, Resources
from tarmac.model.run import Run
from tarmac.model.spec import RunSpec, Target
from tarmac.sched import Demand, Placement, Snapshot, explain

LARGEST = 48
"""The most GPUs of a run on rented machines, where nothing else is set."""

LEAST_S = 600.0
"""Nothing is rented that could not be paid for this long."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 1800.0
"""The pauses after all shapes were tried; each is twice the one before."""

MOST_MORE = 8
"""The number of machines above the fewest that are tried."""

_PLENTY = 1e6
"""The processors of a machine whose shape does not say how many it has."""

_NO_FAULT = frozenset({RentalEnd.RUN_ENDED, RentalEnd.UNUSED})


def offers(
    request: BurstRequest | None,
    spec: RunSpec,
    shapes: Sequence[Shape],
    *,
    largest: int = LARGEST,
    purses: Iterable[Purse] = (),
    caps: Iterable[Cap] = (),
    user: str = "",
    ran_s: float = 0.0,
) -> list[Offer]:
    """The shapes that the request names, in its order; the cheapest first if it names none that is known.

    `purses` pay for the run, and `caps` (`rent_per_hour`) limit its rate. `ran_s` of its time limit are over.
    """
    by_id, wish = {each.id: each for each in shapes}, request or BurstRequest()
    listed = [by_id[shape_id] for shape_id in dict.fromkeys(wish.shapes) if shape_id in by_id]
    limit_s, money = spec.time_limit_s, [*purses]
    limits = matching(caps, SlotUse(user, spec.project, None))
    found = []
    for shape in listed or shapes:
        machines = machines_for(spec, shape)
        rate = shape.rate * machines
        cost = None if limit_s is None else rate * max(0.0, limit_s - ran_s) / HOUR_S
        over = (cap.on(scope, 0.0, rate).text for cap, scope in limits if rate > cap.most)
        refused = _reason(wish, shape, machines, largest, money) or next(over, "")
        found.append(Offer(shape=shape, machines=machines, rate=rate, cost=cost, refused=refused))
    return found if listed else sorted(found, key=lambda each: (not each.machines, each.rate, each.shape.id))


def next_offer(found: Sequence[Offer], past: Sequence[Rental], now: float) -> tuple[Offer | None, float]:
    """The offer to try, and the earliest time for it: the one with the fewest tries since the last success.

    `past` are the ended rentals of the run, by number. Once all were tried, a pause comes first.
    """
    tries: Counter[str] = Counter()
    ended_at = now
    for each in past:
        if each.ready_at is not None:
            tries.clear()
        if each.shape is not None and each.end not in _NO_FAULT:
            tries[each.shape.id] += 1
            ended_at = each.ended_at or now
    chosen = min(
        (each for each in found if not each.refused), key=lambda each: tries[each.shape.id], default=None
    )
    rounds = 0 if chosen is None else tries[chosen.shape.id]
    pause_s = doubled_s(FIRST_PAUSE_S, rounds - 1, LONGEST_PAUSE_S) if rounds else 0.0
    return chosen, ended_at + pause_s


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


def accelerators(spec: RunSpec) -> int:
    """The GPUs that a run requests: its slots, unless they are processors."""
    return sum(_slots(demand) for demand in shape_of(spec)[0] if demand.each.slot_type != CPU_ONLY)


def _slots(demand: Demand) -> int:
    return demand.slots if demand.slots is not None else (demand.replicas or 0) * demand.each.slots


def machines_for(spec: RunSpec, shape: Shape) -> int:
    """The fewest machines of a shape that hold the run; 0 if no number of them does."""
    cpus, memory_bytes = shape.cpus or _PLENTY, shape.memory_bytes or 2**60
    machine = Resources(slots=shape.slots, slot_type=shape.slot_type, cpus=cpus, memory_bytes=memory_bytes)
    return _fewest(shape_of(spec)[0], machine)


@lru_cache(maxsize=4096)
def _fewest(demands: tuple[Demand, ...], machine: Resources) -> int:
    first = max(1, -(-sum(map(_slots, demands)) // machine.slots))
    most = sum(each.slots if each.slots is not None else each.replicas or 0 for each in demands)
    counts = dict.fromkeys([*range(first, first + MOST_MORE + 1), max(first, most)])
    return next((count for count in counts if _holds(demands, machine, count)), 0)


def _holds(demands: tuple[Demand, ...], machine: Resources, count: int) -> bool:
    names = map(str, range(count))
    nodes = [Node(name=name, cluster="", hostname=name, address="", capacity=machine) for name in names]
    run = Run(id="r", spec=RunSpec(name="", roles=()), user="", state=RunState.QUEUED, seq=1, created_at=0.0)
    candidate = candidate_of(run, (demands, Target()))
    idle = Snapshot(pools=(), nodes=tuple(nodes), queue=(candidate,), holdings=())
    return isinstance(explain(idle, "r", 0.0), Placement)


def _reason(wish: BurstRequest, shape: Shape, machines: int, largest: int, purses: Sequence[Purse]) -> str:
    """Why a shape is not rented for a run; "" if it may be."""
    if not machines:
        return f"no number of these machines ({shape.slots} x {shape.slot_type}) holds the run"
    rate, count = shape.rate * machines, shape.accelerators * machines
    if count > largest:
        return f"{machines} machines have {count} GPUs, and {largest} are the most for a run"
    if wish.below is not None and rate > wish.below:
        return f"{rate:g} an hour is more than the run's limit of {wish.below:g}"
    credits_per_hour = shape.credits_per_hour * machines
    short = (each for each in purses if not each.pays(credits_per_hour if each.of_credits else rate, LEAST_S))
    return next((each.text for each in short), "")
