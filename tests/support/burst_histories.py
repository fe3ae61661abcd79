"""`BurstHistory`: a seeded history of burst runs, with faults of the provider and crashes of the server.

A fault may come at every call of the provider, and a crash at every durable write. In the end the faults
cease, and the books of the accounts must agree with the record: nothing rented twice, nothing left, all
charged.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from actors import ADA
from burst_labs import SHAPES, BurstLab, WatchedProvider, shape
from fake_provider import CREATE, DELETE, LIST, Entry, Fault, Knobs, lost, refused, throttled
from sim_engine import Behaviour
from simulated import Crash
from tarmac.control.burst.deciding import LATE_S
from tarmac.model.burst.provider import Refusal, ThingKind
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import BurstRequest
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run
from tarmac.node.attempt.document import Launch

DAY_S = 86_400.0
PAUSE_S = 600.0
"""The longest pause between two deletes: a delete that was lost may have been accepted."""

Faults = Mapping[str, Sequence[str]]
"""The kinds of faults of each operation."""

FAULTS: Faults = {
    CREATE: ("no capacity", "quota", "throttled", "lost before", "lost after", "late"),
    LIST: ("throttled",),
    DELETE: ("throttled", "lost before", "lost after"),
}


class BurstHistory:
    """Three shapes and a spot one in one account, some runs, and everything that may go wrong."""

    faults = FAULTS
    account: type[WatchedProvider] = WatchedProvider

    def __init__(self, seed: int, *, acts: int = 40) -> None:
        self.random = random = Random(seed)
        self.acts = acts
        self.faulty = self.crashing = True
        self.fault_share = random.choice((0.0, 0.05, 0.2, 0.4))
        self.crash_share = random.choice((0.0, 0.005, 0.02))
        self.seen = Counter[str]()
        self.knobs = Knobs(
            visible_after_s=random.choice((0.0, 5.0, 50.0)),
            pending_s=random.choice((0.0, 30.0, 120.0)),
            leaving_s=random.choice((0.0, 0.0, 40.0)),
            listed_gone_s=random.choice((0.0, 600.0)),
            idempotent=random.random() < 0.5,
            disks=random.choice((0, 1)),
            disks_stay=random.random() < 0.5,
            addresses=random.choice((0, 1)),
        )
        self.lab = BurstLab(
            behaviour=self._behaviour,
            knobs=self.knobs,
            shapes=(*SHAPES, shape("spot", 0.5, spot=True)),
            account=self.account,
        )
        self.lab.grant(1e6)
        self._expect_faults()
        self.strangers = [
            self.lab.aws.stranger(),
            self.lab.aws.stranger(kind=ThingKind.DISK),
            self.lab.aws.stranger(owner="another tarmac"),
        ]
        self.lab.rented.disturb = self._disturb
        self.lab.simulation.store.interrupt = self._maybe_crash
        self.lab.simulation.engine.interrupt = lambda _moment, _attempt_id: self._maybe_crash()
        self.runs: list[str] = []

    def play(self) -> None:
        """Play the acts, then let everything come to its end, and check."""
        for _ in range(self.acts):
            self._act()
            self._check()
        self._finish()
        self._check()
        self._check_end()

    # --- acts

    def _act(self) -> None:
        random, lab = self.random, self.lab
        choice = random.random()
        if choice < 0.1 and len(self.runs) < 4:
            self._submit()
        elif choice < 0.2 and self.runs:
            self._command(random.choice(("stop", "pause", "resume", "resume", "resume")))
        elif choice < 0.24:
            lab.simulation.survive(self._crash)
        elif choice < 0.3:
            self._take_back()
        elif choice < 0.36:
            self._change_the_account()
        elif choice < 0.37:
            outage_s = random.choice((600.0, 600.0, 600.0, DAY_S))
            self.knobs.down = lab.now(), lab.now() + outage_s
            self.seen["a day down" if outage_s == DAY_S else "ten minutes down"] += 1
            self._pass(outage_s)
        else:
            self._pass(random.choice((5.0, 30.0, 200.0, 1200.0)))

    def _pass(self, seconds: float) -> None:
        """Let time pass; a server that crashes is back at once."""
        self.lab.go_on(seconds)

    def _submit(self) -> None:
        random, lab = self.random, self.lab
        run = None
        burst = BurstRequest(
            shapes=random.choice(((), (), ("dear", "spot"), ("spot", "cheap"))),
            budget=random.choice((None, None, None, 2.0)),
        )
        key = f"key{len(self.runs)}"
        limit_s = random.choice((None, None, 900.0))
        slots = random.choice((4, 8, 12))
        while run is None:
            with contextlib.suppress(Crash):
                run = lab.submit(
                    slots=slots, approve=False, key=key, burst=burst, time_limit_s=limit_s, retries=1
                )
                break
            lab.simulation.crashes += 1
            lab.simulation.start()
        self.runs.append(run.id)
        if random.random() < 0.9:
            self._approve(run.id)

    def _approve(self, run_id: str) -> None:
        with contextlib.suppress(Refused):
            while not self.lab.simulation.survive(lambda: self.lab.plane.burst.approve(ADA, run_id)):
                pass

    def _command(self, verb: str) -> None:
        run_id = self.random.choice(self.runs)
        self.seen[verb] += 1
        with contextlib.suppress(Refused):
            self.lab.simulation.survive(lambda: getattr(self.lab.plane, verb)(ADA, run_id))

    def _take_back(self) -> None:
        """The provider takes a machine back, with or without a notice."""
        tag = self._tag()
        living = [each for each in self.lab.aws.books.left(owner=tag) if each.kind is ThingKind.MACHINE]
        if not living:
            return
        entry = self.random.choice(living)
        if self.random.random() < 0.6 and entry.notice_at is None and self._announces(entry):
            self.lab.aws.notice(entry.id)
            self.seen["notices"] += 1
        else:
            self.lab.aws.kill(entry.id)
            self.seen["kills"] += 1

    def _announces(self, entry: Entry) -> bool:
        """Whether the provider may say beforehand that it takes this machine back."""
        return True

    def _change_the_account(self) -> None:
        random, knobs = self.random, self.knobs
        match random.choice(("short", "full", "room", "deaf", "clear")):
            case "short":
                knobs.short_by = random.choice((0, 1))
                self.seen["half gangs"] += knobs.short_by
            case "full":
                knobs.capacity = {"cheap": 0, "spot": random.choice((0, 1)), "middle": 1}
            case "room":
                knobs.capacity = {}
            case "deaf":
                knobs.deletes_ignored = random.choice((1, 3))
            case _:
                knobs.short_by = 0

    def _crash(self) -> None:
        raise Crash

    def _maybe_crash(self) -> None:
        if self.crashing and self.random.random() < self.crash_share:
            raise Crash

    def _expect_faults(self) -> None:
        """Let the account ask for a fault before each call."""
        self.lab.aws.draw = lambda operation: self._fault(self._drawn(operation))

    def _drawn(self, operation: str) -> str | None:
        """The kind of fault of this call, if it has one."""
        if not self.faulty or operation not in self.faults or self.random.random() >= self._share(operation):
            return None
        what = self.random.choice(self.faults[operation])
        self.seen[f"{operation} {what}"] += 1
        return what

    def _share(self, operation: str) -> float:
        """The share of the calls that fail."""
        return self.fault_share

    def _fault(self, what: str | None) -> Fault | None:
        match what:
            case None:
                return None
            case "no capacity":
                return refused(Refusal.NO_CAPACITY)
            case "quota":
                return refused(Refusal.QUOTA)
            case "lost before":
                return lost()
            case "lost after":
                return lost(after=True)
            case "late":
                return lost(late_s=self.random.choice((1.0, 20.0, 60.0)))
        return throttled()

    def _disturb(self, call: str) -> None:
        if self.faulty and self.random.random() < 0.1:
            raise Unavailable("the machine is silent")
        if self.faulty and call == "start" and self.random.random() < 0.05:
            raise InvalidInput("these machines can never be a cluster")

    def _behaviour(self, _launch: Launch) -> Behaviour:
        random = self.random
        return Behaviour(
            duration_s=random.choice((10.0, 300.0, 2000.0)),
            start_s=random.choice((0.0, 5.0)),
            checkpoint_period_s=10.0,
            exit_code=random.choice((0, 0, 0, 1)),
            leave_s=random.choice((0.0, 3.0)),
            ignores_requests=random.random() < 0.05,
        )

    # --- the end

    def _finish(self) -> None:
        """No more faults: everyone is approved, and what never ends is stopped."""
        lab, knobs = self.lab, self.knobs
        self.faulty = self.crashing = False
        knobs.short_by, knobs.capacity, knobs.deletes_ignored, knobs.down = 0, {}, 0, None
        lab.simulation.start()
        for run_id in self.runs:
            self._approve(run_id)
            with contextlib.suppress(Refused):
                lab.plane.resume(ADA, run_id)
        for _ in range(24):
            if self._live():
                lab.go_on(300.0)
        for run in self._live():
            with contextlib.suppress(Refused):
                lab.plane.stop(ADA, run.id)
                self.seen["stopped in the end"] += 1
        lab.go_until(lambda: not self._live() and not self._open(), within_s=DAY_S)
        lab.go_on(600.0)

    def _live(self) -> list[Run]:
        found = self.lab.simulation.store.load_runs(self.runs).values()
        return [run for run in found if run.state is not RunState.ENDED]

    def _open(self) -> list[Rental]:
        return [each for each in self.lab.rentals() if each.open]

    def _tag(self) -> str:
        return self.lab.simulation.store.rentals.providers()[0].owner

    # --- the judge

    def _check(self) -> None:
        """At any time: no run has machines of two rentals, nothing of others was touched."""
        twice = self.lab.aws.books.rented_twice()
        assert not twice, f"rented twice: {twice}"
        touched = [each.id for each in self.strangers if each.deletes]
        assert not touched, f"these belong to others, and were deleted: {touched}"
        assert not self.lab.simulation.engine.violations

    def _check_end(self) -> None:
        """Nothing is left. Each machine is charged until the provider accepted its deletion, or else until
        the first list that says that it is gone; the ledger has just that.
        """
        lab, books = self.lab, self.lab.aws.books
        left = books.left(owner=self._tag())
        assert not left, f"left: {left}"
        assert {each.id for each in books.left()} == {each.id for each in self.strangers}
        assert [cluster.name for cluster in lab.simulation.store.clusters()] == []
        made = [each for each in books.of(owner=self._tag()) if each.kind is ThingKind.MACHINE]
        known = {thing.id: thing for each in lab.rentals() for thing in each.things}
        for rental in lab.rentals():
            charged = lab.charged(rental=rental.id)
            assert abs(charged - rental.cost(lab.now())) < 1e-6, f"{rental.id}: charged {charged}"
        assert abs(lab.charged() - sum(each.cost(lab.now()) for each in lab.rentals())) < 1e-6
        for entry in made:
            if entry.id not in known:  # its answer was lost, and it was taken back before any list had it
                begin = max(entry.created_at, entry.visible_at)
                assert not [at for at, _ in lab.aws.looks if begin <= at < entry.gone_at], (
                    f"{entry.id} is lost"
                )
                continue
            thing = known[entry.id]
            assert thing.since == pytest.approx(entry.created_at, abs=1e-3)
            assert thing.gone_at is not None
            since = max(entry.gone_at, entry.created_at + LATE_S)
            later = [answered_at for asked_at, answered_at in lab.aws.looks if asked_at >= since]
            seen_at = later[min(lab.simulation.crashes, len(later) - 1)]
            otherwise = entry.leaving_at not in entry.deletes  # after a delete that had no effect
            earliest = entry.deletes[0] if otherwise and entry.deletes else entry.gone_at - 2 * PAUSE_S
            assert earliest <= thing.gone_at <= seen_at, f"{entry.id} was charged wrongly"
            self.seen["charged to the second"] += abs(thing.gone_at - entry.gone_at) <= self.knobs.leaving_s
        self.seen["machines"] += len(made)
        self.seen["rentals"] += len(lab.rentals())
        self.seen["crashes"] += lab.simulation.crashes
        self.seen["ready"] += sum(each.ready_at is not None for each in lab.rentals())
        for each in lab.rentals():
            self.seen[f"end {each.end}"] += 1
