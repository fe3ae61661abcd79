"""The state of the control plane: its ports, its cache of runs, and the single entry for every change.

Made once by `service.ControlPlane`; the passes, the commands and the reports all use it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from types import MappingProxyType
from typing import Any

from tarmac.control.decisions.notifications import ended_arrays, last_of_arrays, with_notifications
from tarmac.control.state.engines import AttachedEngine, Engines
from tarmac.control.state.event_bus import EventBus, Wakeup
from tarmac.control.state.facts import Shapes
from tarmac.control.state.limit_state import LimitState
from tarmac.control.state.metric_intake import MetricSubscriber
from tarmac.control.state.node_inventory import NodeInventory, NodeTable, Offer
from tarmac.control.state.run_cache import RunCache
from tarmac.control.state.scheduler_state import HALF_LIVES, Estimator, News, SchedulerState, UsageBook
from tarmac.control.state.subscriptions import Subscriptions, SubscriptionsByRun, no_subscriptions
from tarmac.control.state.tallies import Tallies
from tarmac.model.actor import Lease
from tarmac.model.changes import ApplyConventions, NewRun, RunStep, as_it_is
from tarmac.model.cluster import LOCAL_CLUSTER, Drain, Node, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import LeaseLost
from tarmac.model.experiment import Experiment, ExperimentChange
from tarmac.model.kinds.engines import EngineKind
from tarmac.model.lifecycle import OCCUPYING_STATES, Mode, RunEvent, RunState
from tarmac.model.notification import Subscription
from tarmac.model.ports import Clock, CodeStore, Engine, Ids, Store
from tarmac.model.run import Attempt, Run, split_attempt_id

FEED_PERIOD_S = 0.5
"""The period of reading the feed for changes by other servers on the same database."""

_WAKEUPS = {
    RunState.PENDING: Wakeup.STAGE,
    RunState.QUEUED: Wakeup.SCHEDULE,
    RunState.SUBMITTED: Wakeup.DELIVER,
    RunState.STARTING: Wakeup.DELIVER,
    RunState.PAUSING: Wakeup.DELIVER,
    RunState.PREEMPTING: Wakeup.DELIVER,
    RunState.STOPPING: Wakeup.DELIVER,
    RunState.ENDED: Wakeup.SCHEDULE,
    RunState.PAUSED: Wakeup.SCHEDULE,
}
"""The loop to wake when a run enters a state."""

_NEWS_OF_TRIALS = frozenset({RunState.ENDED, RunState.PAUSED})
"""States of a trial that its search has to learn of."""

NO_ENGINES: Mapping[str, Engine[Any]] = MappingProxyType({})
NO_KINDS: Mapping[str, EngineKind] = MappingProxyType({})


class ControlState:
    """Ports, the cache of runs and the event bus. Every commit uses `commit` or `accept`, one at a time.

    One lock serialises them with updates of the cache, so that it never goes back in time; SQLite has one
    writer anyway.
    """

    def __init__(
        self,
        *,
        store: Store,
        engine: Engine[Any],
        engines: Mapping[str, Engine[Any]] = NO_ENGINES,
        kinds: Mapping[str, EngineKind] = NO_KINDS,
        code: CodeStore,
        clock: Clock,
        ids: Ids,
        pools: Sequence[Pool] = (),
        apply_conventions: ApplyConventions = as_it_is,
        serving: Lease | None = None,
        alone: bool = False,
        allow_system_packages: bool = False,
        system_user_of: Callable[[str], str | None] = lambda _user: None,
        notify_always: Sequence[Subscription] = (),
        trackers: SubscriptionsByRun = no_subscriptions,
    ) -> None:
        """`engine` serves this server's own cluster, and every described cluster of the same kind.

        `engines` are those of other permanent clusters; `kinds` open the engines of described ones. `pools`
        are those of the own cluster with their own rules. `serving`: the cluster that this server serves;
        without it, the local one and every attempt. `alone`: no other process ever writes to this store (a
        simulation), so it is not read again. `allow_system_packages`: runs may install packages of the
        distribution on their nodes. `system_user_of`: the system user of a user's runs (None: that of the
        server). `notify_always`: subscriptions to every run. `trackers`: those of programs that track a run.
        """
        self.store = store
        self.serving = serving
        self.engines = Engines(AttachedEngine("", engine), engines, kinds)
        self.code = code
        self.clock = clock
        self.ids = ids
        self.apply_conventions = apply_conventions
        self.allow_system_packages = allow_system_packages
        self.system_user_of = system_user_of
        self.code_failures: dict[str, str] = {}
        """The last error for each pending run whose code could not be stored; replaced by the stage pass."""
        self.metric_subscribers: dict[str, MetricSubscriber] = {}
        """The subscribers to reported metrics; see `metric_intake`. Filled before the loops start."""
        self.attached: Counter[str] = Counter()
        """The number of open sessions by run."""
        self.event_bus = EventBus()
        self.lock = threading.RLock()
        self.estimator = Estimator(store, wake=partial(self.event_bus.notify, Wakeup.ESTIMATE), known=alone)
        self.scheduler_state = SchedulerState(self._news, durations=self.estimator.durations)
        self.shapes = Shapes()
        self.subscriptions = Subscriptions(store, notify_always, trackers, known=alone)
        self._run_cache = RunCache(self.shapes, self.server, self.engines, self.subscriptions.of)
        self._usage = UsageBook()
        self.tallies = Tallies()
        self.limits = LimitState(store, known=alone)
        self._table = NodeTable(())
        self._looked_at = float("-inf")
        self._look_every_s = float("inf") if alone else FEED_PERIOD_S
        self.inventory = NodeInventory(self.engines, pools, self.server, tell=self.event_bus.tell)

    @property
    def server(self) -> str:
        """The server field of runs submitted here: the name of the cluster that this server serves."""
        return self.serving.cluster if self.serving is not None else LOCAL_CLUSTER

    @property
    def home(self) -> str | None:
        """The id of the home that owns this engine."""
        return self.serving.home if self.serving is not None else None

    def starts_here(self, attempt: Attempt) -> bool:
        """Whether the attempt is known to an engine of this server."""
        return attempt.home in (None, self.home)

    def check_lease(self) -> None:
        """Raise LeaseLost if another server has taken the cluster, before effects outside the store."""
        lease = self.serving
        if lease is None:
            return
        served = {record.cluster: (record.home.id, record.token) for record in self.store.servers()}
        if served.get(lease.cluster) != (lease.home, lease.token):
            raise LeaseLost(f"the cluster {lease.cluster!r} was taken over by another server")

    def accept(self, new: Sequence[NewRun]) -> list[Run]:
        """Make new runs durable; see `Store.create_runs`."""
        with self.lock:
            accepted = self.store.create_runs(new)
            fresh = {item.run.id for item in new}
            for run in accepted:
                if run.id in fresh:
                    self._run_cache.take(run, None)
        self._announce(accepted)
        return accepted

    def commit(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        """Apply steps; see `Store.apply`. Runs with a stale step are read again."""
        if not steps:
            return []
        with self.lock:
            if groundless := self._groundless(steps):
                possible = [step for at, step in enumerate(steps) if at not in groundless]
                taken_of = iter(self.commit(possible, lease=lease, whole=whole))
                return [at not in groundless and next(taken_of) for at in range(len(steps))]
            of, live_members = self.subscriptions.of, self._run_cache.live_members
            if not whole and (last := last_of_arrays(steps, of, live_members)):
                parts = [
                    [step for at, step in enumerate(steps) if (at in last) is late] for late in (False, True)
                ]
                before, after = (iter(self.commit(part, lease=lease)) for part in parts)
                return [next(after if at in last else before) for at in range(len(steps))]
            # The last member of an array has the message about all members.
            ended = ended_arrays(steps, of, live_members, self.store.array_counts)
            steps = [with_notifications(step, of, ended.get(step.after.id)) for step in steps]
            taken = self.store.apply(steps, lease=lease, whole=whole)
            applied = list(compress(steps, taken))
            unknown = self._take_up(applied)
            unknown += [step.before.id for step, done in zip(steps, taken, strict=True) if not done]
            if unknown:
                self._run_cache.reload(self.store, unknown)
        self._announce([step.after for step in applied if step.events])
        if any(item.event is RunEvent.RELEASED for step in applied for item in step.events):
            self.event_bus.notify(Wakeup.SCHEDULE)
        if any(step.notifications for step in applied):
            self.event_bus.notify(Wakeup.NOTIFY)
        if self.limits.metered and any(step.attempt is not None and step.events for step in applied):
            self.event_bus.notify(Wakeup.LIMITS)
        return taken

    def create_experiment(self, change: ExperimentChange) -> Experiment:
        """Make a new experiment durable; see `Experiments.create`."""
        with self.lock:
            stored = self.store.experiments.create(change)
            if stored.id == change.after.id:
                for new in change.new_runs:
                    self._run_cache.take(new.run, None)
                self._take_up(change.steps)  # an experiment that is created paused
        if stored.id == change.after.id:
            self._announce([new.run for new in change.new_runs])
        return stored

    def commit_experiment(self, change: ExperimentChange, *, lease: Lease | None = None) -> bool:
        """Make a change of an experiment; see `Experiments.apply`. Its runs are read again if stale."""
        steps = [with_notifications(step, self.subscriptions.of) for step in change.steps]
        change = replace(change, steps=tuple(steps))
        with self.lock:
            if not self.store.experiments.apply(change, lease=lease):
                self._run_cache.reload(self.store, [step.before.id for step in change.steps])
                return False
            for new in change.new_runs:
                self._run_cache.take(new.run, None)
            if unknown := self._take_up(change.steps):
                self._run_cache.reload(self.store, unknown)
        self._announce([new.run for new in change.new_runs] + [step.after for step in change.steps])
        if any(step.notifications for step in steps):
            self.event_bus.notify(Wakeup.NOTIFY)
        return True

    def wake_search(self) -> None:
        """Wake the search loop."""
        self.event_bus.notify(Wakeup.SEARCH)

    def _take_up(self, applied: Sequence[RunStep]) -> list[str]:
        """Cache steps that were just committed; returns the runs that have to be read."""
        unknown = [step.after.id for step in applied if not self._run_cache.absorb(step)]
        self._usage.note(applied)
        self.tallies.note(applied)
        self.estimator.note(step.after for step in applied if step.after.state is RunState.ENDED)
        return unknown

    def run_cache(self) -> RunCache:
        """The cache, updated with changes of other servers. Use it under `lock`."""
        with self.lock:
            now = self.clock.now()
            if now - self._looked_at >= self._look_every_s:
                self._looked_at = now
                self.look_at_clusters()  # first: this determines the runs for the queue of a cluster
                self._run_cache.refresh(self.store, self.check_lease)
            return self._run_cache

    def look_at_clusters(self) -> None:
        """Read the described clusters, the drains and the reservations again. Use it under `lock`."""
        own = [cluster for cluster in self.store.clusters() if cluster.server == self.server]
        self.engines.open(own)
        self._run_cache.note_rented(cluster.name for cluster in own)
        self.inventory.learn(own, self.store.drained_nodes(), self.store.reservations())

    def live_runs(self) -> list[Run]:
        """Every run that has not ended."""
        with self.lock:
            return list(self.run_cache().runs.values())

    def known_attempts(self) -> list[Attempt]:
        """The live attempts in this server's last state, without later changes of others."""
        with self.lock:
            return list(self._run_cache.attempts.values())

    def live_on(self, engine: AttachedEngine) -> list[tuple[Run, Attempt]]:
        """The runs with a live attempt on this engine, and the attempt."""
        found = self.live()
        if self.engines.alone:
            return found
        return [(run, attempt) for run, attempt in found if self.engines.of(attempt) is engine]

    def live(self, only: Iterable[str] | None = None) -> list[tuple[Run, Attempt]]:
        """The runs with a live attempt, and the attempt: every one, or only the attempts with these ids."""
        with self.lock:
            run_cache = self.run_cache()
            attempts: Iterable[Attempt] = run_cache.attempts.values()
            if only is not None:
                named = ((each, run_cache.attempts.get(split_attempt_id(each)[0])) for each in only)
                attempts = (attempt for each, attempt in named if attempt is not None and attempt.id == each)
            return [(run_cache.runs[attempt.run_id], attempt) for attempt in attempts]

    def attempt_of(self, run: Run) -> Attempt | None:
        """The cached live attempt of a run; read from the store if another server has made it."""
        with self.lock:
            attempt = self.run_cache().attempts.get(run.id)
        if attempt is not None and attempt.number == run.attempt:
            return attempt
        return self.store.attempts(run.id)[-1] if run.state in OCCUPYING_STATES else None

    def engine_of(self, attempt_id: str) -> AttachedEngine:
        """The engine of an attempt, live or over."""
        if self.engines.alone:
            return self.engines.own
        run_id, number = split_attempt_id(attempt_id)
        with self.lock:
            attempt = self._run_cache.attempts.get(run_id)
        if attempt is None or attempt.number != number:
            attempt = next((each for each in self.store.attempts(run_id) if each.number == number), None)
        return self.engines.of(attempt) if attempt is not None else self.engines.own

    def undelivered(self, engine: AttachedEngine) -> list[tuple[Run, Attempt]]:
        """The runs with a live attempt whose engine may lack part of the run's state."""
        with self.lock:
            run_cache = self.run_cache()
            return [
                (run_cache.runs[run_id], run_cache.attempts[run_id])
                for cluster, run_ids in run_cache.undelivered.items()
                if self.engines.at(cluster) is engine
                for run_id in run_ids
            ]

    def note_delivered(self, runs: Sequence[Run]) -> None:
        """Record the delivery of these runs in the given state; a run that has changed since is left out."""
        with self.lock:
            for run in runs:
                if self._run_cache.runs.get(run.id) is run:
                    self._run_cache.note_delivered(run.id)

    def node_table(self) -> NodeTable:
        """All nodes by name and by address; the same object while no node changes."""
        with self.lock:
            nodes = self.nodes()
            if nodes is not self._table.nodes:
                self._table = NodeTable(nodes)
            return self._table

    def ports_on(self, names: Iterable[str]) -> set[int]:
        """The promised ports of live attempts whose first node is one of these."""
        with self.lock:
            masters = self._run_cache.masters
            return {port for name in names for port in masters.get(name, {}).values()}

    def nodes(self) -> tuple[Node, ...]:
        """All present nodes: of the lasting clusters and of live rehearsals, drained ones marked."""
        return self.offer()[1]

    def offer(self) -> Offer:
        """All pools with their rules, and all nodes; the same objects while none of them changes."""
        with self.lock:
            return self.inventory.offer(self.run_cache().rehearsals.values())

    def lasting_nodes(self) -> tuple[Node, ...]:
        """The nodes of every lasting cluster, including drained ones."""
        with self.lock:
            self.run_cache()
            return self.inventory.lasting_nodes()

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        """Drain nodes or (None) take them back, durably."""
        with self.lock:
            self.store.set_drained(nodes, drain)
            self.look_at_clusters()
        self.event_bus.notify(Wakeup.SCHEDULE)

    def wholly_drained(self) -> set[str]:
        """The nodes that a person has drained with all their slots."""
        return {name for name, drain in self.store.drained_nodes().items() if not drain.slots}

    def _groundless(self, steps: Sequence[RunStep]) -> set[int]:
        """The steps that grant removed nodes: a cluster may have left during planning."""
        granted = [
            (at, step.attempt.allocation)
            for at, step in enumerate(steps)
            if step.attempt is not None
            and step.before.state is RunState.QUEUED
            and not step.attempt.delegated
        ]
        known = self.node_table().by_name if granted else {}
        if not known:
            return set()
        return {at for at, allocation in granted if not known.keys() >= set(allocation.nodes)}

    def _news(self) -> News:
        """The changes since the scheduler's last update."""
        with self.lock:
            pools, nodes = self.offer()
            run_cache, now = self.run_cache(), self.clock.now()
            half_life_s = max((pool.half_life_s for pool in pools), default=0.0)
            self._usage.load(self.store, now - HALF_LIVES * half_life_s)
            if (ends_since := run_cache.foreign_ends_since) is not None:
                run_cache.foreign_ends_since = None
                self._usage.catch_up(self.store, ends_since)
            limits = self.limits.facts(run_cache, pools, now)
            return pools, nodes, list(run_cache.changes()), self._usage.take(), limits

    def _engine_key(self, run: Run) -> str:
        attempt = None if self.engines.alone else self._run_cache.attempts.get(run.id)
        return self.engines.of(attempt).key if attempt is not None else self.engines.own.key

    def _announce(self, runs: Sequence[Run]) -> None:
        wakeups = set()
        for run in runs:
            if run.spec.trial is not None and run.state in _NEWS_OF_TRIALS:
                wakeups.add((Wakeup.SEARCH, ""))
            if run.state is not RunState.RUNNING:
                wakeup = _WAKEUPS[run.state]
                wakeups.add((wakeup, self._engine_key(run) if wakeup is Wakeup.DELIVER else ""))
            elif run.spec.mode is not Mode.BATCH:
                wakeups.add((Wakeup.SCHEDULE, ""))  # its turn or block has begun: its end is known now
        for wakeup, engine in wakeups:
            self.event_bus.notify(wakeup, engine)
        self.event_bus.tell([run.id for run in runs])
