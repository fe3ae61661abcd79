"""The durable loops: one thread each, woken by the event bus, working under the server's lease.

Started by the server. Every engine has its own loops for all its calls, so that an engine that hangs, fails
or is slow delays no other engine, nor the scheduler and the lease. An error in a pass is logged here, at the
outermost level, and the pass runs again a little later: its unfinished work is invisible (see `reconcilers`).
A server whose cluster was taken over ends its loops.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from tarmac.control.queue.queueing import estimate_pass
from tarmac.control.reconcilers.deliver import deliver_pass
from tarmac.control.reconcilers.idle import idle_pass
from tarmac.control.reconcilers.limits import limits_pass
from tarmac.control.reconcilers.notify import NotifyPass
from tarmac.control.reconcilers.reconcile import reap_pass, reconcile_pass
from tarmac.control.reconcilers.schedule import dependency_pass, schedule_pass, submit_pass
from tarmac.control.reconcilers.search import search_pass
from tarmac.control.reconcilers.stage import Fetches, stage_pass
from tarmac.control.service import ControlPlane
from tarmac.control.serving import step_down
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.errors import LeaseLost, TarmacError
from tarmac.model.ports import FetchesCode
from tarmac.model.run import split_attempt_id

SIGN_OF_LIFE_S = 10.0
"""The period in which the server records a sign of life."""

REAP_PERIOD_S = 10.0
NOTIFY_PERIOD_S = 60.0

BACK_OFF_S = 0.5
LEAVE_S = 5.0
"""The maximum wait for the end of loops that call engines or receivers: a call may hang."""

HANGS_S = 60.0
"""A pass that takes longer than this counts as trouble."""

LEAST_REST_S = 0.01
GATHER_S = 0.002
GATHER_MOST_S = 0.016
"""The pause between two passes over news per live attempt, and its maximum, while other runs wait for slots.

Ends that are recorded together cost less than each alone, and their slots are given away in one plan.
"""

SLOWING = 1.5
"""The factor by which an engine's pause grows each time that nothing has changed."""

log = logging.getLogger(__name__)

Pass = Callable[[ControlState], float | None]
"""One turn of a loop; it returns the time of the next one, if that is early."""


def _nothing() -> None:
    """The action for an event that has no subscriber."""


class Loops:
    """All loops of one server."""

    def __init__(self, plane: ControlPlane) -> None:
        control = self._control = plane.control
        self._on_lost: Callable[[], None] = _nothing
        self._lost = threading.Event()
        self._fetches: Fetches | None = None
        if isinstance(control.code, FetchesCode):
            ready = partial(control.event_bus.notify, Wakeup.STAGE)
            self._fetches = Fetches(control.code, ready=ready)
        stage = partial(stage_pass, fetches=self._fetches)
        self._loops = [
            self._loop(Wakeup.STAGE, stage, 5.0),
            self._loop(Wakeup.SCHEDULE, _schedule, 1.0),
            self._loop(Wakeup.ESTIMATE, estimate_pass, NOTIFY_PERIOD_S),
            self._loop(Wakeup.SEARCH, partial(search_pass, searches=plane.searches), 1.0),
            self._loop(Wakeup.LIMITS, limits_pass, NOTIFY_PERIOD_S),
            self._loop(Wakeup.BURST, plane.burst.turn, NOTIFY_PERIOD_S),
            self._loop(Wakeup.LEASE, _renew, SIGN_OF_LIFE_S),
        ]
        self._notify = (
            self._loop(Wakeup.NOTIFY, NotifyPass(plane.sender), NOTIFY_PERIOD_S) if plane.sender else None
        )
        self._started = False
        self._lock = threading.Lock()
        self._of_engines: dict[AttachedEngine, list[_Loop]] = {}
        control.engines.changed = self._follow_engines
        self._follow_engines()

    def start(self, *, on_lost: Callable[[], None] = _nothing) -> None:
        """Start every loop, each with a pass at once. `on_lost` is called after another server took the
        cluster.
        """
        self._on_lost = on_lost
        with self._lock:
            self._started = True
            for loop in self._every():
                loop.start()

    def stop(self) -> None:
        """End every loop after its current pass. Runs continue; a call that hangs is abandoned."""
        self._control.engines.changed = _nothing
        with self._lock:
            loops = self._every()
        for loop in loops:
            loop.ask_to_end()
        for loop in self._loops:
            loop.join()
        until = time.monotonic() + LEAVE_S
        for loop in loops:
            loop.join(max(0.0, until - time.monotonic()))
        if self._fetches is not None:
            self._fetches.close()

    def trouble(self) -> list[str]:
        """Descriptions of the loops for all engines that have ended or hang; empty before the start."""
        found = []
        for loop in self._loops if self._started else ():
            if not loop.alive:
                found.append(f"the loop {loop.name} has ended")
            elif (busy_s := loop.busy_s()) > HANGS_S:
                found.append(f"the loop {loop.name} has been in one pass for {busy_s:.0f} s")
        return found

    def _every(self) -> list[_Loop]:
        outward = [loop for loops in self._of_engines.values() for loop in loops]
        return [*self._loops, *outward, *([self._notify] if self._notify else [])]

    def _follow_engines(self) -> None:
        """Begin the loops of new engines, and end those of removed engines."""
        with self._lock:
            attached = set(self._control.engines)
            for engine in [known for known in self._of_engines if known not in attached]:
                for loop in self._of_engines.pop(engine):
                    loop.ask_to_end()
            for engine in self._control.engines:
                if engine not in self._of_engines:
                    self._of_engines[engine] = self._loops_of(engine)
                    if self._started:
                        for loop in self._of_engines[engine]:
                            loop.start()

    def _loops_of(self, engine: AttachedEngine) -> list[_Loop]:
        deliver, reap = partial(deliver_pass, engine=engine), partial(_reap, engine=engine)
        reconcile = _Reconcile(self._control, engine)
        return [
            self._loop(Wakeup.DELIVER, deliver, 1.0, engine=engine.key),
            self._loop(Wakeup.RECONCILE, reconcile, engine.pace.idle_s, engine=engine.key),
            self._loop(Wakeup.REAP, reap, REAP_PERIOD_S, engine=engine.key),
        ]

    def _loop(self, wakeup: Wakeup, body: Pass, period_s: float, *, engine: str = "") -> _Loop:
        return _Loop(self._control, (wakeup, engine), body, period_s=period_s, on_lost=self._lose)

    def _lose(self) -> None:
        """End the work of this server: another one acts for the cluster, so effects would happen twice."""
        if self._lost.is_set():
            return
        self._lost.set()
        with self._lock:
            loops = self._every()
        for loop in loops:
            loop.ask_to_end()
        step_down(self._control)
        self._on_lost()


def _schedule(control: ControlState) -> float | None:
    began_at = time.perf_counter()
    dependency_pass(control)
    submit_at, plan_at = submit_pass(control), schedule_pass(control).next_at
    control.tallies.note_cycle(time.perf_counter() - began_at)
    return min((at for at in (submit_at, plan_at) if at is not None), default=None)


def _reap(control: ControlState, engine: AttachedEngine) -> None:
    reap_pass(control, engine)
    idle_pass(control, engine)


def _renew(control: ControlState) -> None:
    if control.serving is not None:
        control.store.renew_lease(control.serving, now=control.clock.now())


def rest_s(next_at: float | None, *, now: float, period_s: float) -> float:
    """The pause of a loop whose pass requires the next one at `next_at`."""
    return period_s if next_at is None else min(max(next_at - now, LEAST_REST_S), period_s)


class _Reconcile:
    """Observes attempts with news at once, and all of them at the engine's pace."""

    def __init__(self, control: ControlState, engine: AttachedEngine) -> None:
        self._event_bus = control.event_bus
        self._engine = engine
        self._news: deque[str] = deque()  # filled by threads of the engine between two passes
        self._period_s = engine.pace.observe_s
        self._look_at = float("-inf")
        self._passed_at = float("-inf")
        if engine.attachment is not None:
            engine.attachment.subscribe(self._on_news)

    def __call__(self, control: ControlState) -> float | None:
        if self._news:
            time.sleep(max(0.0, self._passed_at + _gather_s(control) - time.monotonic()))
        self._passed_at = time.monotonic()
        now, pace = control.clock.now(), self._engine.pace
        only: Collection[str] | None = {self._news.popleft() for _ in range(len(self._news))}
        if only:
            self._period_s = pace.observe_s
            self._look_at = min(self._look_at, now + pace.observe_s)  # more news may follow
        if now >= self._look_at:
            only = None
        if only is None or only:
            steps = reconcile_pass(control, self._engine, only)
            self._period_s = pace.observe_s if steps else min(self._period_s * SLOWING, pace.idle_s)
        if only is None:
            self._look_at = now + self._period_s
        return self._look_at

    def _on_news(self, attempt_id: str) -> None:
        self._news.append(attempt_id)
        self._event_bus.notify(Wakeup.RECONCILE, self._engine.key)
        self._event_bus.tell([split_attempt_id(attempt_id)[0]])


def _gather_s(control: ControlState) -> float:
    """The least time between two passes over news."""
    with control.lock:
        run_cache = control.run_cache()
        live, every = len(run_cache.attempts), len(run_cache.runs)
    return min(GATHER_S * live, GATHER_MOST_S) if every > live else 0.0


@dataclass(eq=False)
class _Loop:
    """One repeated pass: it runs when woken, and at least every `period_s`."""

    control: ControlState
    key: tuple[Wakeup, str]
    body: Pass
    period_s: float
    on_lost: Callable[[], None]

    def __post_init__(self) -> None:
        self.name = "-".join(filter(None, self.key))
        self._turn_at: float | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tarmac-{self.name}", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def busy_s(self) -> float:
        """The duration of the current pass so far."""
        began_at = self._turn_at
        return 0.0 if began_at is None else time.monotonic() - began_at

    def start(self) -> None:
        self._thread.start()

    def ask_to_end(self) -> None:
        self._ending.set()
        self.control.event_bus.notify(*self.key)

    def join(self, timeout_s: float | None = None) -> None:
        if self.alive:  # an incompletely built server has started none
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wakeup = self.control.event_bus.event(*self.key)
        while not self._ending.is_set():
            wakeup.clear()
            self._turn_at = time.monotonic()
            rest_s = self._turn()
            self._turn_at = None
            wakeup.wait(rest_s)

    def _turn(self) -> float:
        """Run one pass; returns the maximum pause."""
        try:
            next_at = self.body(self.control)
        except LeaseLost as error:
            log.error("%s: %s", self.name, error)
            self.on_lost()
            return BACK_OFF_S
        except TarmacError as error:
            log.warning("%s: %s", self.name, error)
            return BACK_OFF_S
        except Exception:  # the outermost level of the loop: a defect in one pass must not end it
            log.exception("%s failed", self.name)
            return BACK_OFF_S
        return rest_s(next_at, now=self.control.clock.now(), period_s=self.period_s)
