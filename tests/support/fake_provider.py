"""An account of a provider in memory, on the clock of a test: the port `Provider`, with faults and books.

Used by the contract suite of providers and by every test of rentals. `Books` have everything that ever
existed, whatever a caller was answered: they are the judge of a history. Nothing here is random; a seeded
history gives `draw`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tarmac.model.burst.provider import (
    AnswerLost,
    Refusal,
    RentedThing,
    RentRefused,
    RentRequest,
    ThingKind,
    ThingState,
)
from tarmac.model.burst.shapes import Shape
from tarmac.model.cluster import Finding
from tarmac.model.errors import TarmacError, Unavailable

CREATE, LIST, DELETE, PRICE = "create", "list", "delete", "price"
SILENCE_S = 3600.0


@dataclass(kw_only=True)
class Entry:
    """A thing of the account, with all times of its life; `inf`: never, as far as is known.

    It costs `rate` per hour from `created_at` to `gone_at`. `deletes` are the times at which someone asked to
    delete it. A machine ends by itself after `limit_s`, and `silence_s` after it was last `heard_at`.
    """

    id: str
    kind: ThingKind = ThingKind.MACHINE
    owner: str | None = None
    request: str | None = None
    run: str | None = None
    machine: str = ""
    rate: float = 0.0
    created_at: float
    visible_at: float = -inf
    running_at: float = 0.0
    leaving_at: float = inf
    gone_at: float = inf
    forgotten_at: float = inf
    deletes: list[float] = field(default_factory=list)
    address: str | None = None
    inner_address: str | None = None
    notice_at: float | None = None
    limit_s: float = inf
    silence_s: float = inf
    heard_at: float = 0.0
    disk_of: str | None = None

    def exists(self, now: float) -> bool:
        """Whether it costs money now."""
        return self.created_at <= now < self.gone_at

    def cost(self, now: float) -> float:
        """The money that it has cost so far."""
        return self.rate * max(0.0, min(now, self.gone_at) - self.created_at) / 3600.0

    def seen(self, now: float) -> RentedThing:
        """Its appearance in a list."""
        state = ThingState.PENDING
        if now >= self.gone_at:
            state = ThingState.GONE
        elif now >= self.leaving_at:
            state = ThingState.LEAVING
        elif now >= self.running_at:
            state = ThingState.RUNNING
        known = state in (ThingState.RUNNING, ThingState.LEAVING)
        return RentedThing(
            kind=self.kind,
            id=self.id,
            state=state,
            owner=self.owner,
            request=self.request,
            run=self.run,
            address=self.address if known else None,
            inner_address=self.inner_address if known else None,
            since=self.created_at,
            notice_at=self.notice_at,
        )


class Books:
    """Everything that ever existed in one account, in the order of creation, on a clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.entries: dict[str, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        self.advance()
        return iter(list(self.entries.values()))

    def of(
        self, *, owner: str | None = None, request: str | None = None, run: str | None = None
    ) -> list[Entry]:
        """The entries with these tags, as far as they are given."""
        return [
            each
            for each in self
            if owner in (None, each.owner) and request in (None, each.request) and run in (None, each.run)
        ]

    def left(self, *, owner: str | None = None) -> list[Entry]:
        """Everything that costs money now, of one owner or of all."""
        return [each for each in self.of(owner=owner) if each.exists(self.now())]

    def cost(self, *, owner: str | None = None) -> float:
        """The money that everything has cost so far, of one owner or of all."""
        return sum(each.cost(self.now()) for each in self.of(owner=owner))

    def end(self, entry: Entry, at: float, *, leaving_s: float = 0.0, listed_s: float = 0.0) -> None:
        """End a thing, and the disks that end with it."""
        entry.leaving_at = min(entry.leaving_at, at)
        entry.gone_at = min(entry.gone_at, at + leaving_s)
        entry.forgotten_at = entry.gone_at + listed_s
        for each in self.entries.values():
            if each.disk_of == entry.id:
                self.end(each, at, leaving_s=leaving_s, listed_s=listed_s)

    def advance(self) -> None:
        """End the machines that have ended by themselves."""
        for each in list(self.entries.values()):
            ends_at = min(each.running_at + each.limit_s, each.heard_at + each.silence_s)
            if each.kind is ThingKind.MACHINE and ends_at <= self.now() and ends_at < each.leaving_at:
                self.end(each, ends_at)

    def rented_twice(self) -> list[tuple[str, str]]:
        """Pairs of requests of one run whose machines existed at the same time."""
        machines = [each for each in self if each.kind is ThingKind.MACHINE and each.run is not None]
        return sorted(
            {
                (str(one.request), str(other.request))
                for one in machines
                for other in machines
                if one.run == other.run
                and str(one.request) < str(other.request)
                and max(one.created_at, other.created_at) < min(one.gone_at, other.gone_at)
            }
        )


@dataclass(kw_only=True)
class Fault:
    """One call that fails. `after`: it has its effect; `late_s`: a create has it this much later."""

    error: TarmacError
    after: bool = False
    late_s: float | None = None


def refused(code: Refusal) -> Fault:
    """A refusal with this code."""
    return Fault(error=RentRefused(code, f"the fake refuses: {code.value}"))


def lost(*, after: bool = False, late_s: float | None = None) -> Fault:
    """A lost answer of a request that was carried out (`after`), will be (`late_s`), or never was."""
    return Fault(error=AnswerLost("the fake lost its answer"), after=after, late_s=late_s)


def throttled() -> Fault:
    """A call that the provider did not accept."""
    return Fault(error=Unavailable("the fake is throttled"))


@dataclass(kw_only=True)
class Knobs:
    """How the account behaves; a change concerns later calls, and things that are created later.

    `visible_after_s`: new things are missing from lists for this time. `pending_s`: until a machine runs.
    `leaving_s`: from a delete to the end. `listed_gone_s`: how long things are listed after their end.
    `short_by`: as many machines of each gang are never made. `capacity`: the most machines of each kind at
    once; a kind that is missing has no limit. `refusals`: kinds that are never rented. `deletes_ignored`: as
    many deletes, from now on, answer well and do nothing. `down`: nothing works from, until. `most_calls` in
    each `per_s` seconds; further calls are throttled. `disks`, `addresses`: of each machine; `disks_stay`
    after their machine, and addresses always do.
    """

    visible_after_s: float = 0.0
    pending_s: float = 0.0
    leaving_s: float = 0.0
    listed_gone_s: float = 0.0
    idempotent: bool = True
    short_by: int = 0
    capacity: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    deletes_ignored: int = 0
    down: tuple[float, float] | None = None
    denied: bool = False
    most_calls: int | None = None
    per_s: float = 1.0
    disks: int = 0
    addresses: int = 0
    disks_stay: bool = False
    silence_s: float = SILENCE_S


class FakeProvider:
    """The adapter of an account. `now` is the clock; a second adapter of the same account shares `books`.

    `faults` are those of the next calls, by operation, oldest first. `draw` is asked before each call without
    such a fault. `limit_of` reads the time limit of machines from their script.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        books: Books | None = None,
        knobs: Knobs | None = None,
        draw: Callable[[str], Fault | None] = lambda operation: None,
        limit_of: Callable[[str], float | None] = lambda script: None,
    ) -> None:
        self.now = now
        self.books = books or Books(now)
        self.knobs = knobs or Knobs()
        self.draw = draw
        self.limit_of = limit_of
        self.faults: dict[str, deque[Fault]] = {
            CREATE: deque(),
            LIST: deque(),
            DELETE: deque(),
            PRICE: deque(),
        }
        self.calls: list[tuple[float, str]] = []
        self.requests: list[RentRequest] = []
        self._lock = threading.RLock()

    # --- the port ----------------------------------------------------------------------------------

    def create(self, request: RentRequest) -> Sequence[RentedThing]:
        with self._lock:
            fault = self._begin(CREATE)
            self.requests.append(request)
            if fault is None or fault.after or fault.late_s is not None:
                made = self._made(request, fault.late_s or 0.0 if fault is not None else 0.0)
            if fault is not None:
                raise fault.error
            now = self.now()
            return [each.seen(now) for each in made if each.kind is ThingKind.MACHINE]

    def list(self) -> Sequence[RentedThing]:
        with self._lock:
            fault = self._begin(LIST)
            if fault is not None:
                raise fault.error
            now = self.now()
            return [
                each.seen(now)
                for each in self.books
                if max(each.created_at, each.visible_at) <= now
                and (now < each.gone_at or now < each.forgotten_at)
            ]

    def delete(self, things: Collection[RentedThing]) -> None:
        with self._lock:
            fault = self._begin(DELETE)
            if fault is None or fault.after:
                self._delete(things)
            if fault is not None:
                raise fault.error

    def price(self, shape: Shape) -> float | None:
        with self._lock:
            fault = self._begin(PRICE)
            if fault is not None:
                raise fault.error
            return self.knobs.prices.get(shape.machine)

    def examine(self) -> Sequence[Finding]:
        """The findings of a check, one for each step."""
        try:
            return [Finding(what="list", ok=True, text=f"{len(self.list())} things")]
        except (RentRefused, Unavailable) as error:
            return [Finding(what="list", ok=False, text=str(error))]

    # --- what happens to machines ------------------------------------------------------------------

    def stranger(
        self, *, kind: ThingKind = ThingKind.MACHINE, owner: str | None = None, rate: float = 1.0
    ) -> Entry:
        """Add a running thing that another program, or another server (`owner`), has created."""
        with self._lock:
            request = None if owner is None else f"request-of-{owner}"
            return self._add(
                Entry(id="", kind=kind, owner=owner, request=request, rate=rate, created_at=self.now())
            )

    def heard(self, request: str) -> None:
        """The server told the live machines of a request that it still wants them."""
        with self._lock:
            now = self.now()
            for each in self.books.of(request=request):
                if each.running_at <= now < each.leaving_at:
                    each.heard_at = now

    def notice(self, thing_id: str, *, in_s: float = 120.0) -> None:
        """Announce that the provider takes a machine back."""
        with self._lock:
            entry = self.books.entries[thing_id]
            entry.notice_at = self.now() + in_s
            self.books.end(entry, entry.notice_at)

    def kill(self, thing_id: str) -> None:
        """End a machine now, without notice."""
        with self._lock:
            self.books.end(self.books.entries[thing_id], self.now())

    # --- the account -------------------------------------------------------------------------------

    def _begin(self, operation: str) -> Fault | None:
        """The fault of this call, if it fails in the middle; raises those that come before everything."""
        now, knobs = self.now(), self.knobs
        recent = sum(now - knobs.per_s < at for at, _ in self.calls)
        self.calls.append((now, operation))
        if knobs.down is not None and knobs.down[0] <= now < knobs.down[1]:
            raise Unavailable("the fake is down")
        if knobs.most_calls is not None and recent >= knobs.most_calls:
            raise throttled().error
        if knobs.denied:
            raise RentRefused(Refusal.DENIED, "the fake refuses these credentials")
        if self.faults[operation]:
            return self.faults[operation].popleft()
        return self.draw(operation)

    def _made(self, request: RentRequest, late_s: float) -> list[Entry]:
        knobs, now = self.knobs, self.now() + late_s
        existing = self.books.of(owner=request.owner, request=request.id)
        if existing and knobs.idempotent:
            return existing
        kind = request.shape.machine
        if kind in knobs.refusals:
            raise refused(knobs.refusals[kind]).error
        used = sum(each.machine == kind and each.exists(self.now()) for each in self.books)
        if used + request.machines > knobs.capacity.get(kind, used + request.machines):
            raise refused(Refusal.NO_CAPACITY).error
        limit_s = self.limit_of(request.script)
        running_at = now + knobs.pending_s
        common = Entry(
            id="",
            owner=request.owner,
            request=request.id,
            run=request.run,
            created_at=now,
            visible_at=now + knobs.visible_after_s,
        )
        made = []
        for _ in range(request.machines - knobs.short_by):
            machine = replace(
                common,
                machine=kind,
                rate=request.shape.rate,
                running_at=running_at,
                heard_at=running_at,
                limit_s=inf if limit_s is None else limit_s,
                silence_s=knobs.silence_s,
            )
            made.append(self._add(machine))
            disk = replace(common, kind=ThingKind.DISK, disk_of=None if knobs.disks_stay else machine.id)
            made.extend(self._add(replace(disk)) for _ in range(knobs.disks))
            made.extend(self._add(replace(common, kind=ThingKind.ADDRESS)) for _ in range(knobs.addresses))
        return made

    def _add(self, entry: Entry) -> Entry:
        number = len(self.books.entries) + 1
        entry.id = f"{entry.kind.value}-{number:04}"
        entry.deletes = []
        if entry.kind is ThingKind.MACHINE:
            entry.address, entry.inner_address = f"203.0.113.{number % 250}", f"10.0.0.{number % 250}"
        self.books.entries[entry.id] = entry
        return entry

    def _delete(self, things: Collection[RentedThing]) -> None:
        now, knobs = self.now(), self.knobs
        ignored = knobs.deletes_ignored > 0
        knobs.deletes_ignored -= ignored
        for thing in things:
            entry = self.books.entries.get(thing.id)
            if entry is None:
                continue
            entry.deletes.append(now)
            if not ignored and now < entry.leaving_at:
                self.books.end(entry, now, leaving_s=knobs.leaving_s, listed_s=knobs.listed_gone_s)
