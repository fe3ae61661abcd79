"""Plays jobs through the real control plane in virtual time: the passes of `control` over `sched`, on `sim`.

Only the threads are left out: each pass runs when it is notified, when the engine had news for it, or when
the plan requests it (`next_at`). Called by `comparing`.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from msgspec import Struct

from tarmac.control.admission import Submission
from tarmac.control.decisions.steps import stop_run
from tarmac.control.reconcilers.deliver import deliver_pass
from tarmac.control.reconcilers.reconcile import reconcile_pass
from tarmac.control.reconcilers.schedule import schedule_pass
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.engines.sim import clock, engine
from tarmac.engines.sim.story import Behaviour
from tarmac.model.actor import Actor
from tarmac.model.cluster import Cluster, Policy
from tarmac.model.codec import replace
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import Mode
from tarmac.model.ports import StagedCode, Store
from tarmac.model.resources import Resources
from tarmac.model.spec import Command, LocalDirectory, Process, Repository, Role, RunSpec, Target
from tarmac.node.attempt.document import Launch
from tarmac.sched import Estimate, scope_of_run
from tarmac.simulator.jobs import Job
from tarmac.simulator.measures import Estimates, PromiseBook
from tarmac.simulator.play_store import PlayStore
from tarmac.simulator.record import Record
from tarmac.simulator.renting import BurstRules, Renting
from tarmac.simulator.shapes import with_rules

EPOCH_S = 1_000_080_000.0
"""The start of virtual time for a trace that counts from zero: a midnight."""

NO_DATES_S = 1e8
"""Smaller times of a trace are not dates."""

KEEPS_ALL_S = 1e15
"""A checkpoint period that never passes: jobs save only when they leave."""

COLLECT_EVERY = 100_000
"""New objects between two collections: nearly all objects of a simulation stay or are freed by counting."""

ESTIMATES = 400
"""The approximate number of jobs, evenly spread, whose start is estimated, because an estimate takes time."""


PROGRESS_EVERY = 200
"""Ended jobs between two progress reports."""

_TRAIN = Process(command=Command(argv=("train",)), resources=Resources())

Progress = Callable[[int, int], None]
"""Called now and then with the number of ended jobs, and of all jobs."""


class Rules(Struct, frozen=True, kw_only=True):
    """The rules of a play. `policy` None leaves every pool its own rules; `preemption` None then means as in
    those, otherwise the default of the policy.

    Every attempt pays `restart_s` before it works; with `limit_factor`, each job has a time limit of that
    many times its true duration. With `renting`, batch jobs that wait for too long rent machines.
    """

    policy: Policy | None = Policy.PRIORITY
    preemption: bool | None = None
    limit_factor: float | None = None
    restart_s: float = 0.0
    renting: BurstRules | None = None
    estimates: bool = False

    @property
    def preempting(self) -> bool | None:
        """Whether batch runs preempt others: by default under the policies that share time."""
        if self.preemption is not None or self.policy is None:
            return self.preemption
        return self.policy is not Policy.PRIORITY

    def limit_of(self, job: Job) -> float | None:
        """The time limit of a job under these rules."""
        return job.limit_s if self.limit_factor is None else max(1.0, self.limit_factor * job.duration_s)


class Play:
    """One play: a control plane, its engine and its clock, and the jobs that are still to come."""

    def __init__(
        self, jobs: Sequence[Job], cluster: Cluster, rules: Rules, store: PlayStore | None = None
    ) -> None:
        self.record = Record(jobs)
        self._rules = rules
        offset_s = EPOCH_S if jobs[0].submitted_at < NO_DATES_S else 0.0
        self._arrivals = [job.submitted_at + offset_s for job in jobs]
        self._jobs = jobs
        self._next = 0
        self._clock = clock.VirtualClock(self._arrivals[0])
        self.store = store or PlayStore()
        self._news: set[str] = set()
        self._specs: dict[tuple[object, ...], RunSpec] = {}  # one for all that differ in name and limit alone
        self._behaviours = [
            Behaviour(duration_s=job.duration_s, start_s=rules.restart_s, checkpoint_period_s=KEEPS_ALL_S)
            for job in jobs
        ]
        self.engine = engine.SimEngine(self._clock, behaviour=self._behaviour)
        ruled = with_rules(cluster, rules.policy, preemption=rules.preempting)
        self.store.put_cluster(ruled)
        self._plane = ControlPlane(
            ControlState(
                store=cast(Store, self.store),  # the passes of a play call nothing that it lacks
                engine=self.engine,
                code=_NoCode(),
                clock=self._clock,
                ids=_Ids(),
                alone=True,
            )
        )
        self.engine.subscribe(self._news.add)
        self._plan_at: float | None = None
        self.estimates = Estimates() if rules.estimates else None
        self._ask_at = 0
        sharing = any(job.mode is Mode.INTERRUPTIBLE for job in jobs)
        self._renting = Renting(rules.renting, self.record) if rules.renting is not None else None
        self.promises = PromiseBook(max(pool.period_s for pool in ruled.pools)) if sharing else None

    def run(
        self, progress: Progress = lambda _ended, _all: None, *, stop: Callable[[], bool] = lambda: False
    ) -> Record:
        """Play to the end, or until `stop` returns true; the record covers the time until then."""
        reported = 0
        with _rare_collections():
            while True:
                self._settle()
                self.record.take(self.store, self._clock.now())
                if self._renting is not None and self._rent(self._renting):
                    continue
                if self.promises is not None:
                    runs = self._plane.control.run_cache().runs.values()
                    self.promises.note((self.record.number_of(run.id), run) for run in runs)
                if self.estimates is not None:
                    self._estimate(self.estimates)
                if self.record.ended >= reported + PROGRESS_EVERY:
                    reported = self.record.ended
                    self._forget()
                    progress(reported, len(self._jobs))
                upcoming = self._upcoming()
                if upcoming is None or stop():
                    break
                self._clock.advance_to(upcoming)
        self.record.complete = upcoming is None
        progress(self.record.ended, len(self._jobs))
        return self.record

    def _upcoming(self) -> float | None:
        """The time of the next event."""
        arrival = self._arrivals[self._next] if self._next < len(self._arrivals) else None
        rental = self._renting.next_at() if self._renting is not None else None
        moments = (self._clock.next_event_at(), self._plan_at, arrival, rental)
        return min((at for at in moments if at is not None), default=None)

    def _settle(self) -> None:
        """Process everything that is due now, until nothing is left."""
        control, clock, news = self._plane.control, self._clock, self._news
        schedule, deliver = control.event_bus.event(Wakeup.SCHEDULE), control.event_bus.event(Wakeup.DELIVER)
        now = clock.now()
        while self._next < len(self._arrivals) and self._arrivals[self._next] <= now:
            self._submit(self._next)
            self._next += 1
        while True:
            if news:
                run_ids = frozenset(news)
                news.clear()
                reconcile_pass(control, control.engines.own, only=run_ids)
            elif schedule.is_set() or (self._plan_at is not None and self._plan_at <= now):
                schedule.clear()
                self._plan_at = schedule_pass(control).next_at
            elif deliver.is_set():
                deliver.clear()
                deliver_pass(control, control.engines.own)
                clock.advance_to(now)  # events at the present time are handled at once
            else:
                return

    def _rent(self, renting: Renting) -> bool:
        """Take the jobs that rent machines now out of the queue; false if there are none."""
        now, control, rented = self._clock.now(), self._plane.control, []
        for number in renting.due(now):
            passage = self.record.passages[number]
            done_s = self.engine.world.progress_s(passage.run_id)
            limit_s = self._rules.limit_of(passage.job)
            left_s = None if limit_s is None else max(0.0, limit_s - passage.held_s)
            work_s = self._rules.restart_s + passage.job.duration_s - done_s
            if renting.rents(number, self._spec(passage.job), now, work_s, left_s):
                rented.append(stop_run(control.run_cache().runs[passage.run_id], None, now))
        control.commit(rented)
        return bool(rented)

    def _estimate(self, estimates: Estimates) -> None:
        """Estimate the start of every n-th new job that has to wait."""
        every = max(1, len(self._jobs) // ESTIMATES)
        now = self._clock.now()
        for number in range(self._ask_at, self._next):
            run_id = self.record.waiting(number) if number % every == 0 else None
            if run_id is not None:
                estimates.note(number, now, self._estimate_of(run_id, now))
        self._ask_at = self._next

    def _estimate_of(self, run_id: str, now: float) -> Estimate:
        control = self._plane.control
        scope = control.scheduler_state.ask(lambda ledger: scope_of_run(ledger, run_id, now))
        return control.estimator.estimates(scope, now)[run_id]

    def _forget(self) -> None:
        """Remove ended runs from store and engine, which months of them would fill; the record has them."""
        over = self.record.take_over()
        self.store.forget(over, events_until=self.record.last_event_id)
        for run_id in over:
            self.engine.forget(run_id)

    def _submit(self, number: int) -> None:
        job = self._jobs[number]
        user = job.user if job.user is not None else job.id
        try:
            accepted = self._plane.submit([Submission(spec=self._spec(job), actor=Actor(user=user))])
        except Refused as refusal:
            self.record.refused(number, str(refusal))
        else:
            self.record.accepted(number, accepted[0].run.id, self._clock.now())

    def _spec(self, job: Job) -> RunSpec:
        key = (job.slots, job.project, job.mode, job.priority, job.weight, job.pool)
        alike = self._specs.get(key)
        if alike is None:
            alike = self._specs[key] = RunSpec(
                name=job.name,
                roles=_roles(job.slots),
                project=job.project,
                target=Target(pool=job.pool),
                mode=job.mode,
                priority=job.priority,
                weight=job.weight,
            )
        return replace(alike, name=job.name, time_limit_s=self._rules.limit_of(job))

    def _behaviour(self, launch: Launch) -> Behaviour:
        return self._behaviours[self.record.number_of(launch.run_id)]


def _roles(slots: int) -> tuple[Role, ...]:
    """One role on this many slots, with any split, because a trace has only their number."""
    if slots == 0:
        return (Role(processes=(_TRAIN,)),)
    return (Role(processes=(_TRAIN,), replicas=None, slots=slots, uneven=True),)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: nearly all objects of a simulation stay, or are freed by counting."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Ids:
    """Counting ids: the runs of a play have the numbers of their jobs."""

    def __init__(self) -> None:
        self._made = 0

    def run_id(self, now: float) -> str:  # noqa: ARG002 the port's
        self._made += 1
        return f"r{self._made:08}"

    def token(self) -> str:
        return "simulated"


class _NoCode:
    """A code store that refuses all code, because jobs of a trace have none."""

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        raise NotImplementedError(code)

    def check_sent(self, code: LocalDirectory) -> None:
        raise NotImplementedError(code)
