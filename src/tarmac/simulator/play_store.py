"""`PlayStore`: the record of a play in memory. Used by `playing` and `record` in place of a database.

It has the methods of `model.ports.Store` that the passes of a play call, for one thread, and passes the
contract suite of steps. With SQLite in memory, a play takes three times as long.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tarmac.model import lifecycle
from tarmac.model.actor import Lease
from tarmac.model.changes import NewRun, RunStep, UsageBucket, first_actor, usage_of
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.codec import encode, replace
from tarmac.model.lifecycle import LIVE_STATES, AttemptState, RunState
from tarmac.model.metrics import Position
from tarmac.model.progress import Event, Outcome, StepEvent
from tarmac.model.reservations import ReservedNodes
from tarmac.model.run import Attempt, Run
from tarmac.store.checks import check_new, check_step, guard_states
from tarmac.store.database import Conflict

NO_DETAIL: Mapping[str, Any] = MappingProxyType({})


class NoMetrics:
    """The metrics of a play: the jobs of a trace report none."""

    def positions(self, run_ids: Collection[str]) -> dict[Position, int]:  # noqa: ARG002 the port's
        return {}


class PlayStore:
    """Implements the part of `model.ports.Store` that a play needs: no keys, leases and messages."""

    def __init__(self) -> None:
        self.metrics = NoMetrics()
        self._runs: dict[str, Run] = {}
        self._attempts: dict[str, dict[int, Attempt]] = {}
        self._events: list[Event] = []  # numbered from `_forgotten` + 1 on
        self._forgotten = 0
        self._usage: dict[tuple[float, str, str, str, str, str], UsageBucket] = {}
        self._clusters: dict[str, Cluster] = {}

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        for item in new:
            check_new(item)
        ids = {item.run.id for item in new}
        if len(ids) < len(new) or not self._runs.keys().isdisjoint(ids):
            raise Conflict("a run of this id exists")
        for item in new:
            self._keep_new(item)
        return [item.run for item in new]

    def apply(
        self,
        steps: Sequence[RunStep],
        *,
        lease: Lease | None = None,  # noqa: ARG002 the port's: a play has no servers
        whole: bool = False,
    ) -> list[bool]:
        for step in steps:
            check_step(step)
        taken = self._fitting(steps)
        if whole and not all(taken):
            return [False] * len(steps)
        for step, fits in zip(steps, taken, strict=True):
            if fits:
                self._keep_step(step)
        return taken

    def live_runs(self) -> Iterator[Run]:
        return (run for _, run in sorted(self._runs.items()) if run.state in LIVE_STATES)

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        return {run_id: self._runs[run_id] for run_id in run_ids}

    def attempts(self, run_id: str) -> list[Attempt]:
        return [attempt for _, attempt in sorted(self._attempts.get(run_id, {}).items())]

    def live_attempts(self) -> list[Attempt]:
        return [
            attempt
            for run_id in sorted(self._attempts)
            for attempt in self.attempts(run_id)
            if attempt.state is not AttemptState.ENDED
        ]

    def feed(self, *, after_id: int, limit: int = 1000) -> list[Event]:
        start = max(0, after_id - self._forgotten)
        return self._events[start : start + limit]

    def last_event_id(self) -> int:
        return self._forgotten + len(self._events)

    def array_counts(self, array_id: str) -> dict[tuple[RunState, Outcome | None], int]:  # noqa: ARG002
        """Empty: the jobs of a trace are in no array."""
        return {}

    def drained_nodes(self) -> dict[str, Drain]:
        """Empty: the nodes of a play are never drained."""
        return {}

    def reservations(self) -> list[ReservedNodes]:
        """Empty: no nodes of a play are reserved."""
        return []

    def usage(self, since: float) -> list[UsageBucket]:
        return [bucket for key, bucket in sorted(self._usage.items()) if key[0] >= since]

    def clusters(self) -> list[Cluster]:
        return [self._clusters[name] for name in sorted(self._clusters)]

    def put_cluster(self, cluster: Cluster) -> None:
        self._clusters[cluster.name] = cluster

    def forget(self, run_ids: Iterable[str], *, events_until: int) -> None:
        """Remove these runs, and all events up to this id: long plays would fill the memory."""
        for run_id in run_ids:
            del self._runs[run_id]
            self._attempts.pop(run_id, None)
        del self._events[: max(0, events_until - self._forgotten)]
        self._forgotten = max(self._forgotten, events_until)

    def _fitting(self, steps: Sequence[RunStep]) -> list[bool]:
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
                    lifecycle.attempt_step(old.state, new.state)
                attempts[where] = new
        return taken

    def _keep_new(self, new: NewRun) -> None:
        run, state = new.run, lifecycle.INITIAL_STATE
        self._runs[run.id] = run
        first = StepEvent(event=lifecycle.INITIAL_EVENT, at=run.created_at, detail=NO_DETAIL, actor=run.user)
        self._append(run, 1, state, first)
        for seq, kind in enumerate(new.events, start=2):
            state = lifecycle.step(state, kind)
            self._append(run, seq, state, replace(first, event=kind, actor=first_actor(new, kind)))

    def _keep_step(self, step: RunStep) -> None:
        run, state = step.after, step.before.state
        self._runs[run.id] = run
        for seq, item in enumerate(step.events, start=step.before.seq + 1):
            state = lifecycle.step(state, item.event)
            self._append(run, seq, state, item)
        if (attempt := step.attempt) is not None:
            self._attempts.setdefault(run.id, {})[attempt.number] = attempt
        if (used := usage_of(step)) is not None:
            before = self._usage.get(used.key)
            total = used.slot_s if before is None else before.slot_s + used.slot_s
            self._usage[used.key] = replace(used, slot_s=total)

    def _append(self, run: Run, seq: int, state: RunState, item: StepEvent) -> None:
        self._events.append(
            Event(
                id=self.last_event_id() + 1,
                run_id=run.id,
                seq=seq,
                at=item.at,
                event=item.event,
                state=state,
                detail=json.loads(json.dumps(encode(item.detail))) if item.detail else NO_DETAIL,
                actor=item.actor,
            )
        )
