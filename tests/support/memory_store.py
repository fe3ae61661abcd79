"""`MemoryStore`: the store as a fake with knobs. It passes the contract suite, and survives crashes."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from memory_annotations import MemoryAnnotations, MemoryAnnouncements, MemoryReservations
from memory_experiments import MemoryExperiments
from memory_limits import MemoryLimits
from memory_metrics import MemoryMetrics
from memory_notifications import MemoryNotifications
from memory_numbers import MemoryNumbers
from memory_queries import newest_of
from memory_rentals import MemoryRentals
from memory_run_records import MemoryRunRecords
from memory_run_views import MemoryRunViews
from memory_secrets import MemorySecrets
from memory_usage import spans_of, used_slots
from memory_writes import CountedWrites
from tarmac.model.actor import HomeIdentity, Lease, ServerRecord, Sight
from tarmac.model.changes import NewRun, RunStep, UsageBucket, first_actor, usage_of
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.codec import encode, replace
from tarmac.model.errors import LeaseLost
from tarmac.model.experiment import Experiments
from tarmac.model.lifecycle import (
    INITIAL_EVENT,
    INITIAL_STATE,
    TERMINAL_STATES,
    AttemptState,
    RunEvent,
    RunState,
    attempt_step,
)
from tarmac.model.lifecycle import step as next_state
from tarmac.model.people.usage import AttemptSpan, TimeRange, Used
from tarmac.model.progress import Event, Outcome
from tarmac.model.run import Attempt, Run
from tarmac.model.run_records import Dataset
from tarmac.model.summary import RunQuery, RunSummary
from tarmac.store.checks import (
    Key,
    check_cluster,
    check_dataset,
    check_new,
    check_step,
    guard_states,
    key_of,
    split_known,
    target_pool,
)
from tarmac.store.database import Conflict


class MemoryStore(MemoryReservations):
    """Implements `model.ports.Store` in memory. `writes` counts writes; `disk_full` refuses each of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._write = CountedWrites(self._lock)
        self._runs, self._live = dict[str, Run](), set[str]()
        self._where: dict[str, tuple[str | None, str | None]] = {}
        self._by_key: dict[Key, str] = {}
        self._attempts: dict[str, dict[int, Attempt]] = {}
        self._live_attempts: set[tuple[str, int]] = set()
        self._events: list[Event] = []  # numbered from `_forgotten` + 1 on
        self._forgotten = 0
        self._histories: dict[str, list[Event]] = {}
        self._servers, self._drained = dict[str, ServerRecord](), dict[str, Drain]()
        self._usage: dict[tuple[float, str, str, str, str, str], float] = {}
        self._removed_spans: list[AttemptSpan] = []
        self._clusters, self._datasets = dict[str, Cluster](), dict[str, Dataset]()
        self.secrets, self.announcements = MemorySecrets(), MemoryAnnouncements()
        self.annotations, self.numbers = MemoryAnnotations(self._runs, self._lock), MemoryNumbers()
        self.limits, self.rentals = MemoryLimits(self._write), MemoryRentals(self._write, self._fence)
        self.run_views = MemoryRunViews(self._runs, self._where, self._lock, self.rentals)
        self.run_records = MemoryRunRecords(self._runs, self._lock)
        self.metrics = MemoryMetrics(self._runs, self._write, self._fence, self.run_records.keep)
        self.notifications = MemoryNotifications(self._write, self._fence)
        parts = self._write, self._lock, self._fence, self._write_runs
        self.experiments: Experiments = MemoryExperiments(*parts)

    # --- knobs ------------------------------------------------------------------------------------

    @property
    def writes(self) -> int:
        return self._write.begun

    @property
    def disk_full(self) -> bool:
        return self._write.disk_full

    @disk_full.setter
    def disk_full(self, full: bool) -> None:
        self._write.disk_full = full

    def fail_before(self, write: int, error: BaseException) -> None:
        """Raise `error` instead of doing the write of this number (the first one is 1)."""
        self._write.failures_before[write] = error

    def fail_after(self, write: int, error: BaseException) -> None:
        """Do the write of this number, durably, and then raise `error` to its caller."""
        self._write.failures_after[write] = error

    def forget(self, run_ids: Iterable[str], *, events_until: int) -> None:
        """Remove these runs, and all events up to this id: long simulations would fill the memory."""
        with self._lock:
            for run_id in run_ids:
                self._forget(run_id)
            del self._events[: max(0, events_until - self._forgotten)]
            self._forgotten = max(self._forgotten, events_until)

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        for item in new:
            check_new(item)
        if not new:
            return []
        with self._write:
            existing, fresh = split_known(new, {key: self._runs[run_id] for key, run_id in self._keys(new)})
            ids = [item.run.id for item in fresh]
            if len(set(ids)) < len(ids) or not self._runs.keys().isdisjoint(ids):
                raise Conflict("a run of this id exists")
            for item in fresh:
                self._keep_new(item)
            return existing

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        for step in steps:
            check_step(step)
        if not steps:
            self._fence(lease)
            return []
        with self._write:
            self._fence(lease)
            taken = self._judge(steps)
            if whole and not all(taken):
                return [False] * len(steps)
            for step, fits in zip(steps, taken, strict=True):
                if fits:
                    self._keep_step(step)
            return taken

    def run(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        return {run_id: self._runs[run_id] for run_id in run_ids if run_id in self._runs}

    def find_runs(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Run]:
        with self._lock:
            newest = newest_of(self._runs, RunQuery(sight=sight)) if reference else []
        named = [run for run in newest if run.name == reference]
        own = [run for run in named if run.user == user]
        started = [run for run in newest if run.id.startswith(reference)]
        return ([run for run in started if run.id == reference] or own or named or started)[:limit]

    def runs(self, query: RunQuery) -> list[RunSummary]:
        with self._lock:
            found = newest_of(self._runs, query)[: query.limit]
            return [self.run_views.line(run) for run in found]

    def count_runs(self, query: RunQuery) -> int:
        return len(newest_of(self._runs, query))

    def array_counts(self, array_id: str) -> dict[tuple[RunState, Outcome | None], int]:
        with self._lock:
            return dict(Counter((r.state, r.outcome) for r in self._runs.values() if r.array_id == array_id))

    def live_runs(self) -> Iterator[Run]:
        return iter([self._runs[run_id] for run_id in sorted(self._live)])

    def remove_runs(self, run_ids: Collection[str]) -> frozenset[str]:
        with self._write:
            gone = frozenset(run_ids) & self._runs.keys() - self._live
            for run_id in gone:
                if (key := key_of(self._runs[run_id])) is not None:
                    del self._by_key[key]
                self._removed_spans += self._spans(run_id)
                self._forget(run_id)
            return gone

    def attempts(self, run_id: str) -> list[Attempt]:
        with self._lock:
            return [attempt for _, attempt in sorted(self._attempts.get(run_id, {}).items())]

    def live_attempts(self) -> list[Attempt]:
        with self._lock:
            return [self._attempts[run_id][number] for run_id, number in sorted(self._live_attempts)]

    def events(self, run_id: str, *, after_seq: int = 0) -> list[Event]:
        with self._lock:
            return self._histories.get(run_id, [])[after_seq:]

    def feed(self, *, after_id: int, limit: int = 1000) -> list[Event]:
        with self._lock:
            start = max(0, after_id - self._forgotten)
            return [event for event in self._events[start:] if event.run_id in self._runs][:limit]

    def last_event_id(self) -> int:
        with self._lock:
            return self._forgotten + len(self._events)

    # --- servers and nodes ------------------------------------------------------------------------

    def servers(self) -> list[ServerRecord]:
        with self._lock:
            return [record for _, record in sorted(self._servers.items())]

    def take_lease(self, cluster: str, home: HomeIdentity, *, after: int, now: float) -> Lease | None:
        with self._write:
            record = self._servers.get(cluster)
            if (0 if record is None else record.token) != after:
                return None
            self._servers[cluster] = ServerRecord(cluster=cluster, home=home, token=after + 1, seen_at=now)
            return Lease(cluster=cluster, home=home.id, token=after + 1)

    def renew_lease(self, lease: Lease, *, now: float) -> None:
        with self._write:
            self._fence(lease)
            self._servers[lease.cluster] = replace(self._servers[lease.cluster], seen_at=now)

    def drained_nodes(self) -> dict[str, Drain]:
        with self._lock:
            return dict(self._drained)

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        with self._write:
            for node in nodes:
                self._drained.pop(node, None)
                if drain is not None:
                    self._drained[node] = drain

    def usage(self, since: float) -> list[UsageBucket]:
        with self._lock:
            found = sorted(item for item in self._usage.items() if item[0][0] >= since)
        fields = ("hour_at", "cluster", "pool", "user", "project", "group")
        return [
            UsageBucket(**dict(zip(fields, key, strict=True)), slot_s=slot_s)  # type: ignore[arg-type]
            for key, slot_s in found
        ]

    def attempt_spans(self, since: float, until: float) -> list[AttemptSpan]:
        with self._lock:
            found = self._removed_spans + [span for run_id in self._attempts for span in self._spans(run_id)]
        return [one for one in found if one.begin < until and (one.end is None or one.end > since)]

    def used_slots(self, days: TimeRange, others: Sequence[TimeRange], *, by_day: bool) -> Used:
        return used_slots(self.attempt_spans(float("-inf"), float("inf")), days, others, by_day=by_day)

    def clusters(self) -> list[Cluster]:
        with self._lock:
            return [self._clusters[name] for name in sorted(self._clusters)]

    def put_cluster(self, cluster: Cluster) -> None:
        check_cluster(cluster)
        with self._write:
            self._clusters[cluster.name] = cluster

    def datasets(self) -> list[Dataset]:
        with self._lock:
            return [self._datasets[dataset_id] for dataset_id in sorted(self._datasets)]

    def put_dataset(self, dataset: Dataset) -> None:
        check_dataset(dataset)
        with self._write:
            self._datasets[dataset.id] = dataset

    def remove_dataset(self, dataset_id: str) -> None:
        with self._write:
            self._datasets.pop(dataset_id, None)

    def remove_cluster(self, name: str) -> None:
        with self._write:
            self._clusters.pop(name, None)

    def close(self) -> None: ...

    # --- the writes -------------------------------------------------------------------------------

    def _fence(self, lease: Lease | None) -> None:
        if lease is None:
            return
        record = self._servers.get(lease.cluster)
        if record is None or (record.home.id, record.token) != (lease.home, lease.token):
            raise LeaseLost(f"the cluster {lease.cluster!r} was taken over by another server")

    def _forget(self, run_id: str) -> None:
        for table in (self._runs, self._attempts, self._histories, self._where):
            table.pop(run_id, None)
        self.metrics.forget(run_id)
        self.notifications.forget(run_id)

    def _spans(self, run_id: str) -> list[AttemptSpan]:
        return spans_of(self._runs[run_id], self._attempts.get(run_id, {}).values())

    def _keys(self, new: Sequence[NewRun]) -> Iterator[tuple[Key, str]]:
        """The known idempotency keys of `new`, each with the id of its run."""
        for item in new:
            key = key_of(item.run)
            if key is not None and key in self._by_key:
                yield key, self._by_key[key]

    def _keep_new(self, new: NewRun) -> None:
        run, state = new.run, INITIAL_STATE
        self._runs[run.id] = run
        self._live.add(run.id)
        self._where[run.id] = run.spec.target.cluster, target_pool(run)
        if (key := key_of(run)) is not None:
            self._by_key[key] = run.id
        self._append(run.id, INITIAL_EVENT, state, at=run.created_at, detail={}, actor=run.user)
        for kind in new.events:
            state = next_state(state, kind)
            self._append(run.id, kind, state, at=run.created_at, detail={}, actor=first_actor(new, kind))

    def _judge(self, steps: Sequence[RunStep]) -> list[bool]:
        """Whether each step's guard holds, after those before it; raises before anything is changed."""
        runs: dict[str, Run] = {}
        attempts: dict[tuple[str, int], Attempt] = {}
        taken = []
        for step in steps:
            stored = runs.get(step.before.id) or self._runs.get(step.before.id)
            fits = (
                stored is not None
                and stored.seq == step.before.seq
                and stored.share == step.before.share
                and stored.state in guard_states(step)
            )
            taken.append(fits)
            if not fits:
                continue
            runs[step.after.id] = step.after
            if (new := step.attempt) is not None:
                where = (new.run_id, new.number)
                old = attempts.get(where) or self._attempts.get(new.run_id, {}).get(new.number)
                if old is not None and old.state is not new.state:
                    attempt_step(old.state, new.state)
                attempts[where] = new
        return taken

    def _write_runs(self, new: Sequence[NewRun], steps: Sequence[RunStep]) -> bool:
        """Write new runs and steps as a part of another write; False, and no change, if one is stale."""
        fresh = {item.run.id for item in new}
        if not all(self._judge([step for step in steps if step.before.id not in fresh])):
            return False
        for item in new:
            self._keep_new(item)
        for step in steps:
            self._keep_step(step)
        return True

    def _keep_step(self, step: RunStep) -> None:
        run, state = step.after, step.before.state
        self._runs[run.id] = run
        if run.queue_position is not None and run.queue_position.pool is not None:
            self._where[run.id] = self._where[run.id][0], run.queue_position.pool
        if run.state in TERMINAL_STATES:
            self._live.discard(run.id)
        for item in step.events:
            state = next_state(state, item.event)
            detail = json.loads(json.dumps(encode(item.detail)))
            self._append(run.id, item.event, state, at=item.at, detail=detail, actor=item.actor)
        if (attempt := step.attempt) is not None:
            self._attempts.setdefault(run.id, {})[attempt.number] = attempt
            self._where[run.id] = attempt.allocation.cluster, attempt.allocation.pool
            live, ended = self._live_attempts, attempt.state is AttemptState.ENDED
            (live.discard if ended else live.add)((run.id, attempt.number))
        if (used := usage_of(step)) is not None:
            self._usage[used.key] = self._usage.get(used.key, 0.0) + used.slot_s
        self.notifications.keep(step.notifications)

    def _append(
        self,
        run_id: str,
        kind: RunEvent,
        state: RunState,
        *,
        at: float,
        detail: Mapping[str, Any],
        actor: str | None,
    ) -> None:
        history, number = self._histories.setdefault(run_id, []), self._forgotten + len(self._events) + 1
        event = Event(
            id=number,
            run_id=run_id,
            seq=len(history) + 1,
            at=at,
            event=kind,
            state=state,
            detail=detail,
            actor=actor,
        )
        self._events.append(event)
        history.append(event)
