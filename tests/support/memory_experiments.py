"""`MemoryExperiments`: experiments as a fake that passes the same suite. Made by `MemoryStore`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tarmac.model.actor import Lease, Sight
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.experiment import Experiment, ExperimentChange, ExperimentHead, ExperimentQuery, Trial
from tarmac.model.lifecycle import ExperimentState
from tarmac.store.checks import check_experiment_change


class MemoryExperiments:
    """Implements `model.experiment.Experiments`, in the writes of a `MemoryStore`."""

    def __init__(
        self,
        write: AbstractContextManager[None],
        lock: AbstractContextManager[Any],
        fence: Callable[[Lease | None], None],
        write_runs: Callable[[Sequence[NewRun], Sequence[RunStep]], bool],
    ) -> None:
        self._write = write
        self._lock = lock
        self._fence = fence
        self._write_runs = write_runs
        self._found: dict[str, Experiment] = {}
        self._trials: dict[str, dict[int, Trial]] = {}
        self._trial_of: dict[str, tuple[str, int]] = {}

    def create(self, change: ExperimentChange) -> Experiment:
        check_experiment_change(change)
        after = change.after
        with self._write:
            for known in self._found.values():
                if after.idempotency_key is not None and _key(known) == _key(after):
                    return known
            self._write_runs(change.new_runs, change.steps)
            self._keep(change)
        return after

    def apply(self, change: ExperimentChange, *, lease: Lease | None = None) -> bool:
        check_experiment_change(change)
        assert change.before is not None, "a new experiment is created"
        with self._write:
            self._fence(lease)
            stored = self._found.get(change.before.id)
            if stored is None or stored.seq != change.before.seq:
                return False
            if not self._write_runs(change.new_runs, change.steps):
                return False
            self._keep(change)
        return True

    def experiment(self, experiment_id: str) -> Experiment | None:
        with self._lock:
            return self._found.get(experiment_id)

    def find(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Experiment]:
        with self._lock:
            every = [self._found[each] for each in sorted(self._found, reverse=True)]
            newest = [each for each in every if _seen(each, sight)]
        if not reference:
            return []
        found = (
            [each for each in newest if each.id == reference]
            or [each for each in newest if each.name == reference and each.user == user]
            or [each for each in newest if each.name == reference]
            or [each for each in newest if each.id.startswith(reference)]
        )
        return found[:limit]

    def experiments(self, query: ExperimentQuery) -> list[Experiment]:
        with self._lock:
            newest = [self._found[each] for each in sorted(self._found, reverse=True)]
        return [each for each in newest if _matches(each, query)][: query.limit]

    def heads(self, query: ExperimentQuery) -> list[ExperimentHead]:
        return [ExperimentHead(each.id, each.name, each.user) for each in self.experiments(query)]

    def projects(self, sight: Sight | None) -> dict[str, int]:
        found = self._found.values()
        return dict(Counter(each.project for each in found if _seen(each, sight)))

    def load(self, experiment_ids: Sequence[str]) -> dict[str, Experiment]:
        with self._lock:
            return {each: self._found[each] for each in experiment_ids if each in self._found}

    def live(self) -> dict[str, int]:
        with self._lock:
            found = sorted(self._found.items())
        return {name: each.seq for name, each in found if each.state is not ExperimentState.ENDED}

    def trials(self, experiment_id: str) -> list[Trial]:
        with self._lock:
            return [each for _, each in sorted(self._trials.get(experiment_id, {}).items())]

    def trials_of(self, experiment_ids: Sequence[str]) -> list[Trial]:
        return [trial for each in sorted(set(experiment_ids)) for trial in self.trials(each)]

    def trial_of(self, run_id: str) -> Trial | None:
        with self._lock:
            where = self._trial_of.get(run_id)
            return self._trials[where[0]][where[1]] if where is not None else None

    def remove(self, experiment_id: str) -> bool:
        with self._write:
            found = self._found.get(experiment_id)
            if found is None or found.state is not ExperimentState.ENDED:
                return False
            del self._found[experiment_id]
            for each in self._trials.pop(experiment_id, {}).values():
                del self._trial_of[each.run_id]
            return True

    def _keep(self, change: ExperimentChange) -> None:
        self._found[change.after.id] = change.after
        for each in change.trials:
            self._trials.setdefault(each.experiment, {})[each.number] = each
            self._trial_of[each.run_id] = each.experiment, each.number


def _key(found: Experiment) -> tuple[str, str | None]:
    return found.user, found.idempotency_key


def _seen(found: Experiment, sight: Sight | None) -> bool:
    return sight is None or sight.covers(found.user, found.project)


def _matches(found: Experiment, query: ExperimentQuery) -> bool:
    return (
        query.user in (None, found.user)
        and _seen(found, query.sight)
        and query.project in (None, found.project)
        and (not query.states or found.state in query.states)
        and query.archived in (None, found.archived)
        and (query.before_id is None or found.id < query.before_id)
    )
