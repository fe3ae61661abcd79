"""Rents machines for runs, makes them clusters, and gives them back: the loop of rentals.

A pass reads all facts, and takes each rental one step further: the table in `deciding` has the steps. Every
step is durable before its effect, and each effect can be repeated: a crash at any point loses no machine.
Calls of providers and machines are calls, which hold no lock.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial

from tarmac.control.burst.charging import WARN_S
from tarmac.control.burst.choosing import end_at, next_offer, rents_now
from tarmac.control.burst.deciding import START_S, Trouble, alive, changed, disuse, ended, unplaced, usable
from tarmac.control.burst.deciding import trouble as trouble_of
from tarmac.control.burst.market import Market
from tarmac.control.burst.reaping import Reaping
from tarmac.control.burst.renter import Renter
from tarmac.control.decisions import steps
from tarmac.control.decisions.counting import doubled_s
from tarmac.control.decisions.notifications import burst_messages
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.burst.provider import AnswerLost, Provider, RentRefused, RentRequest, ThingState
from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState, RentedClusters
from tarmac.model.burst.shapes import BurstRequest, Offer, Stock
from tarmac.model.cluster import BURST_PREFIX
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Cause, CauseCode
from tarmac.model.run import Attempt, Run
from tarmac.sched import Preemption, PreemptionReason

log = logging.getLogger(__name__)

KEEP_S = 600.0
"""Machines hear from the server this often."""

AGAIN_S = 15.0
"""The pause before the next try of a call of machines, and between looks at what changes by itself."""

WAIT_S = 60.0
"""The pause before a requested rental, or the money for a ready one, is looked at again."""

LEAST_S = 1.0
"""A run has waited too long once its wait is over by this much."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 600.0
"""The pauses between deletes of the same machines; each is twice the one before."""

FORCE_S = 600.0
"""A run that has not left this long after its grace loses its machines."""

_AT_WORK = frozenset({RunState.STARTING, RunState.RUNNING})
_CAUSES = {
    RentalEnd.BUDGET: CauseCode.BUDGET_EXHAUSTED,
    RentalEnd.CREDITS_EXHAUSTED: CauseCode.CREDITS_EXHAUSTED,
    RentalEnd.TIME_LIMIT: CauseCode.TIME_LIMIT,
}
_WITH_MACHINES = frozenset({RentalState.STARTING, RentalState.READY})


class Renting:
    """The passes of the loop of rentals. One thread calls `turn`."""

    def __init__(self, renter: Renter, rented: RentedClusters) -> None:
        self._renter, self._rented = renter, rented
        self.reaping = Reaping(renter, rented)
        self._next_at: dict[str, float] = {}  # when a call may begin again, by its key
        self._deletes: Counter[str] = Counter()
        self._sent: set[str] = set()
        self._concerned: set[str] = set()
        renter.control.event_bus.subscribe(self._hear)

    def _hear(self, changed: Collection[str]) -> None:
        """Wake the loop after a change of a run that has machines, or waits for some."""
        if not self._concerned.isdisjoint(changed):
            self._renter.control.event_bus.notify(Wakeup.BURST)

    def turn(self, control: ControlState) -> float | None:
        """One pass; returns the time of the next one, if there is anything to do."""
        rules, rentals = self._renter.parts.rules, control.store.rentals.open_rentals()
        self._next_at = {key: at for key, at in self._next_at.items() if at > control.clock.now()}
        self._sweep(rentals)
        rented = {each.run_id for each in rentals}
        runs = [run for run in control.live_runs() if run.spec.may_rent or run.id in rented]
        runs.sort(key=lambda run: run.id)
        burst = {run.id for run in runs if run.spec.is_burst}
        self._concerned = rented | burst  # a queue that rents has many others
        market = Market(control, rules, runs)
        due = [self._want(run, market) for run in runs if run.spec.may_rent]
        for rental in market.rentals:
            if rental.open and rental.server == control.server:
                due.append(at := self._advance(rental, market))
                if rental.state is RentalState.REQUESTED and at == market.now:
                    market.note(self._renter.rental(rental) or rental)  # it counts for the next one
        due.append(self.reaping.turn(market))
        return min((at for at in due if at is not None), default=None)

    def _sweep(self, rentals: list[Rental]) -> None:
        """Remove the clusters that no rental stands for: after a crash, or once their run has left."""
        standing = {each.cluster for each in rentals if each.state in _WITH_MACHINES}
        leaving = {each.cluster for each in rentals} - standing
        for cluster in self._renter.control.inventory.clusters:
            if cluster.name.startswith(BURST_PREFIX) and cluster.name not in standing:
                self._renter.withdraw(cluster.name, gone=cluster.name not in leaving)

    def _want(self, run: Run, market: Market) -> float | None:
        """Begin another try for a run that waits for machines and has none; ask once for its approval."""
        past, control = market.of_run(run.id), self._renter.control
        if run.state is not RunState.QUEUED or run.awaits or any(each.open for each in past):
            return None
        if run.spec.is_burst:
            if not past and market.rules.approval:
                self._tell(run, f"waits for approval: tarmac burst approve {run.id}", "approval")
                return None
        elif not (past and past[-1].end is RentalEnd.RECLAIMED):
            request, queued_at = run.spec.burst or BurstRequest(), run.queued_at or market.now
            if market.now <= (due_at := queued_at + (request.wait_s or 0.0)):
                return due_at + LEAST_S
            if rents_now(market.now - queued_at, request, market.offers(run)) is None:
                return market.now + WAIT_S
        self._renter.change(None, requested(run, past, control.ids.token(), market.now))
        return market.now

    def _advance(self, rental: Rental, market: Market) -> float | None:
        """Take a rental one step further; returns when it is to be looked at again."""
        run, attempt = market.runs.get(rental.run_id), market.attempts.get(rental.run_id)
        match rental.state:
            case RentalState.REQUESTED:
                return self._choose(rental, run, attempt, market)
            case RentalState.STARTING:
                end = trouble_of(rental, market.now) or disuse(rental, run, attempt)
                if end is not None:
                    self._renter.release(rental, end)
                elif usable(rental):
                    self._repeat(f"start {rental.id}", partial(self._start, rental), market.now, AGAIN_S)
                return market.now + AGAIN_S
            case RentalState.READY:
                return self._tend(rental, run, attempt, market)
            case RentalState.RELEASING:
                return self._give_back(rental, market.now)
        return None

    # --- renting

    def _choose(
        self, rental: Rental, run: Run | None, attempt: Attempt | None, market: Market
    ) -> float | None:
        now = market.now
        if (end := disuse(rental, run, attempt)) is not None or run is None:
            self._renter.change(rental, ended(rental, end or (RentalEnd.RUN_ENDED, ""), now))
            return None
        past = [each for each in market.of_run(run.id) if each.id != rental.id]
        if run.awaits or run.state is RunState.PENDING or any(each.open for each in past):
            return now + WAIT_S
        found = market.offers(run)
        offer, at = next_offer(found, past, now)
        if offer is None:
            text = "; ".join(f"{each.shape.id}: {each.refused}" for each in found) or "there are no shapes"
            if text != rental.text:
                self._renter.change(rental, changed(rental, text=text))
            return now + WAIT_S
        if at > now:
            return at
        self._create(rental, run, offer, market)
        return now

    def _create(self, rental: Rental, run: Run, offer: Offer, market: Market) -> None:
        """Make the intent durable, and then rent."""
        shape, now = offer.shape, market.now
        try:
            record = self._renter.provider(shape.provider)
            provider = self._renter.open(record)
            limit_s = None if run.spec.time_limit_s is None else run.spec.time_limit_s - run.ran_s
            budget = run.spec.burst.budget if run.spec.burst is not None else None
            left = None if budget is None else budget - market.spending.of_run(run.id)
            ends_at = end_at(now + START_S, offer.rate, left, limit_s)
            terms = {"shape": shape, "machines": offer.machines, "created_at": now, "end_at": ends_at}
            intent = changed(rental, state=RentalState.CREATING, text="", **terms)
            own_limit_s = None if ends_at is None else ends_at - now + START_S
            script = self._rented.script(intent, limit_s=own_limit_s)
        except TarmacError as error:
            failed = replace(ended(rental, (RentalEnd.INVALID, str(error)), now), shape=shape)
            self._renter.change(rental, failed)
            return
        if self._renter.change(rental, intent):
            tags = {"id": rental.id, "owner": record.owner, "run": run.id}
            request = RentRequest(**tags, shape=shape, machines=offer.machines, script=script)
            self._renter.calls.begin(f"create {rental.id}", partial(self._rent, provider, request, intent))

    def _rent(self, provider: Provider, request: RentRequest, intent: Rental) -> None:
        """Call the provider, and make its answer durable; a lost one is settled by lists."""
        now, stock = self._renter.control.clock.now, None
        try:
            things = tuple(provider.create(request))
        except RentRefused as error:
            after = ended(intent, (RentalEnd(error.refusal.value), error.message), now())
            stock = Stock(shape=request.shape.id, tried_at=now(), text=error.message)
        except Unavailable as error:
            after = ended(intent, (RentalEnd.UNAVAILABLE, error.message), now())
        except AnswerLost as error:
            after = changed(intent, text=error.message)
        else:
            if not things:
                return
            after = changed(intent, state=RentalState.STARTING, things=things)
            stock = Stock(shape=request.shape.id, tried_at=now(), machines=len(things))
        if stock is not None:
            self._renter.control.store.rentals.put_stock(stock)
        if not after.open:
            self._rented.forget(after)
        self._renter.change(intent, after)

    def _start(self, rental: Rental) -> None:
        """Make a cluster of its machines. May take minutes: the rental may have changed since."""
        control = self._renter.control
        try:
            cluster = self._rented.start(rental, lambda machine, text: log.info("%s: %s", machine, text))
            with control.lock:
                current = self._renter.rental(rental)
                if current is None or current.state is not RentalState.STARTING:
                    return
                self._renter.clusters.record(cluster)
                ready = changed(current, state=RentalState.READY, ready_at=control.clock.now())
                self._renter.change(current, ready)
        except InvalidInput as error:
            if (known := self._renter.rental(rental)) is not None and known.state is RentalState.STARTING:
                self._renter.release(known, (RentalEnd.START_FAILED, error.message))

    # --- keeping

    def _tend(self, rental: Rental, run: Run | None, attempt: Attempt | None, market: Market) -> float | None:
        """Keep a cluster while its run needs it and can pay for it; otherwise have the run leave first."""
        now = market.now
        if attempt is not None and attempt.allocation.cluster != rental.cluster:
            attempt = None if run is None or run.state is RunState.QUEUED else attempt
        known = None if rental.end is None else (rental.end, rental.text)
        end = known or trouble_of(rental, now) or disuse(rental, run, attempt) or _spent(rental, run, market)
        end = end or unplaced(rental, run, attempt, now)
        if end is None and self._renter.control.inventory.described(rental.cluster) is None:
            end = RentalEnd.START_FAILED, "its cluster was removed"
        if end is None:
            keep = partial(self._rented.keep_alive, rental)
            self._repeat(f"keep {rental.id}", keep, now, KEEP_S)
            if run is not None:
                self._warn(rental, run, market)
            return now + WAIT_S
        on_it = attempt is not None and attempt.allocation.cluster == rental.cluster
        if run is None or attempt is None or not on_it or _is_gone(rental):
            self._renter.release(rental, end)
            return now
        if known is None:
            code, text = end
            marked = changed(rental, end=code, text=text)
            if not self._renter.change(rental, marked):
                return now
            rental = marked
        if run.state in _AT_WORK:
            self._ask(rental, run, attempt, now)
        elif now >= (attempt.leave_requested_at or now) + run.spec.pause.grace_s + FORCE_S:
            self._renter.release(rental, end)
        return now + AGAIN_S

    def _ask(self, rental: Rental, run: Run, attempt: Attempt, now: float) -> None:
        """Ask its run to leave: to be queued again if its machines are taken, otherwise for good."""
        control, code = self._renter.control, _CAUSES.get(rental.end or RentalEnd.RECLAIMED)
        if code is None:
            self._renter.drain(rental.cluster)
            reason = PreemptionReason.RECLAIMED
            step = steps.preempt_run(run, attempt, Preemption(run_id=run.id, seq=run.seq, reason=reason), now)
        else:
            step = steps.stop_for(run, attempt, Cause(code=code, message=rental.text), now)
        control.commit([step], lease=control.serving)

    def _warn(self, rental: Rental, run: Run, market: Market) -> None:
        """Warn its owner once, before money or time end."""
        if rental.warned_at is None:
            reasons = [*_ends_soon(rental, run, market)]
            if reasons:
                self._tell(run, f"{reasons[0]}: it is asked to leave then", f"end {rental.number}")
                self._renter.change(rental, changed(rental, warned_at=market.now))

    def _tell(self, run: Run, text: str, about: str) -> None:
        """Send a message about a run, once: later ones with the same key are dropped."""
        control, key = self._renter.control, f"{run.id} {about}"
        if key not in self._sent:
            self._sent.add(key)
            found = burst_messages(run, control.subscriptions.of, text, about, control.clock.now())
            control.store.notifications.add(found)
            control.event_bus.notify(Wakeup.NOTIFY)

    def _repeat(self, key: str, call: Callable[[], None], now: float, every_s: float) -> float:
        """Begin a call unless that was less than `every_s` ago; returns when it may begin again."""
        at = self._next_at.get(key, now)
        if now < at:
            return at
        self._next_at[key] = now + every_s
        self._renter.calls.begin(key, call)
        return now + every_s

    # --- giving back

    def _give_back(self, rental: Rental, now: float) -> float | None:
        """Delete what is left of a rental, again and again until nothing is."""
        if not alive(rental):
            self._deletes.pop(rental.id, None)
            return None
        pause_s = doubled_s(FIRST_PAUSE_S, self._deletes[rental.id], LONGEST_PAUSE_S)
        return self._repeat(f"delete {rental.id}", partial(self._delete, rental), now, pause_s)

    def _delete(self, rental: Rental) -> None:
        self._deletes[rental.id] += 1
        if rental.deletes == 0:
            with suppress(Unavailable):  # it has copied what it can
                self._rented.keep_files(rental)
        try:
            provider = self._renter.open(self._renter.provider(rental.shape.provider if rental.shape else ""))
            present = alive(rental)
            provider.delete([each for each in present if each.state is not ThingState.LEAVING] or present)
        except AnswerLost as error:
            log.info("%s: %s", rental.id, error)
        if (known := self._renter.rental(rental)) is not None and known.state is RentalState.RELEASING:
            now = self._renter.control.clock.now()
            self._renter.change(known, changed(known, deletes=known.deletes + 1, deleted_at=now))


def requested(run: Run, past: Sequence[Rental], token: str, now: float, *, approved: str = "") -> Rental:
    """The next rental of a run; `approved` says who approved the first."""
    number = past[-1].number + 1 if past else 1
    return Rental(
        id=f"{run.id}-{number}-{token}",
        run_id=run.id,
        user=run.user,
        project=run.project,
        server=run.server,
        number=number,
        requested_at=now,
        approved=past[-1].approved if past else approved,
    )


def _is_gone(rental: Rental) -> bool:
    """Whether a machine is gone, so that its run cannot leave any more."""
    leaving = (ThingState.LEAVING, ThingState.GONE)
    return any(each.gone_at is not None or each.state in leaving for each in rental.machines_known)


def _spent(rental: Rental, run: Run | None, market: Market) -> Trouble | None:
    """The money or the time that is used up."""
    purses = [] if run is None else market.spending.purses(run)
    if (spent := next((each for each in purses if each.left <= 0.0), None)) is not None:
        return spent.end, spent.text
    if rental.end_at is not None and market.now >= rental.end_at:
        return RentalEnd.TIME_LIMIT, "the time of the rental is over"
    return None


def _ends_soon(rental: Rental, run: Run, market: Market) -> Iterator[str]:
    """Sentences on what ends soon."""
    yield from (each.text for each in market.spending.purses(run) if each.is_due_to_warn())
    attempt, limit_s = market.attempts.get(run.id), run.spec.time_limit_s
    began_at = attempt.started_at if attempt is not None else None
    if limit_s is not None and began_at is not None and market.now + WARN_S >= began_at + limit_s - run.ran_s:
        yield "its time limit ends soon"
    elif rental.end_at is not None and market.now + WARN_S >= rental.end_at:
        yield "the time of the rental ends soon"
