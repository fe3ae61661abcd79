"""A server's live experiments in memory: their searchers and their trials.

Read by the search pass and by the commands, which decide on a fresh copy: a rejected decision leaves no
trace.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

from tarmac.control.decisions.trials import ChangeDraft, NewTrialRun, trial_report
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.metric_intake import MetricSubscriber
from tarmac.model.changes import NewRun
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment, Trial, TrialReport
from tarmac.model.lifecycle import INITIAL_STATE, RunEvent, TrialState
from tarmac.model.lifecycle import steps as states
from tarmac.model.metrics import MetricEvent
from tarmac.model.run import Run
from tarmac.model.search import SAMPLERS, SearchSpec
from tarmac.model.spec import RunSpec
from tarmac.search.searching import Search

SearcherOf = Callable[[SearchSpec, Mapping[str, Any] | None], Search]
"""Begins a search (no state), or continues one."""


def own_searcher(spec: SearchSpec, state: Mapping[str, Any] | None) -> Search:
    """The searches without dependencies; raises InvalidInput for those that learn from earlier trials."""
    if spec.method in SAMPLERS or spec.pruner is not None:
        raise InvalidInput(
            f"the search method {spec.pruner or spec.method} is not available on this server",
            hint="use random or adaptive_asha",
        )
    return Search(spec, state)


FORGET_EVERY = 200
"""The minimum of reports that are removed at once."""


@dataclass(slots=True)
class _Known:
    """An experiment in its last read or changed state; its searcher is None once a decision has used it."""

    experiment: Experiment
    trials: dict[int, Trial]
    searcher: Search | None


class Searches:
    """Experiments by id, each cached while no other change affects it."""

    def __init__(self, control: ControlState, searcher_of: SearcherOf = own_searcher) -> None:
        self._control = control
        self._searcher_of = searcher_of
        self._known: dict[str, _Known] = {}
        self._subscriber = f"search of {control.server}"
        self._pending: dict[str, list[TrialReport]] = {}
        self._seen = self._forgotten = 0
        control.metric_subscribers[self._subscriber] = MetricSubscriber(trial_report, control.wake_search)

    def start(self, spec: SearchSpec) -> Search:
        """A search that has not begun."""
        return self._searcher_of(spec, None)

    def live(self) -> list[Experiment]:
        """The experiments of this server that have not ended, by id."""
        live = self._control.store.experiments.live()
        for gone in self._known.keys() - live.keys():
            self._known.pop(gone, None)
        found = []
        for experiment_id, seq in live.items():
            known = self._known.get(experiment_id)
            if known is None or known.experiment.seq != seq:
                known = self._load(experiment_id)
            if known is not None and known.experiment.server == self._control.server:
                found.append(known.experiment)
        return found

    def reports(self, experiment: Experiment) -> list[TrialReport]:
        """The reports of its trials that its search does not know yet, in order."""
        metrics = self._control.store.metrics
        while events := metrics.events(self._subscriber, after_id=self._seen):
            self._seen = events[-1].id
            for event in events:
                self._pending.setdefault(event.body["experiment"], []).append(_report(event))
        return [each for each in self._pending.get(experiment.id, ()) if each.id > experiment.cursor]

    def forget_reports(self) -> None:
        """Remove reports that every search knows from the store, once there are many."""
        live = {name for name, known in self._known.items() if known.experiment.outcome is None}
        self._pending = {name: found for name, found in self._pending.items() if found and name in live}
        until_id = min((found[0].id - 1 for found in self._pending.values()), default=self._seen)
        if until_id >= self._forgotten + FORGET_EVERY:
            self._control.store.metrics.forget_events(self._subscriber, until_id=until_id)
            self._forgotten = until_id

    def draft(self, experiment_id: str) -> ChangeDraft | None:
        """A change of an experiment to be decided; None if it does not exist.

        After `take` or `drop` of it another may be begun.
        """
        known = self._known.get(experiment_id) or self._load(experiment_id)
        if known is None:
            return None
        experiment = known.experiment
        searcher = known.searcher or self._searcher_of(experiment.search, experiment.search_state)
        known.searcher = None
        runs = self.runs_of(known.trials)
        with self._control.lock:
            live = self._control.run_cache().attempts
            attempts = {run_id: live[run_id] for run_id in runs if run_id in live}
        return ChangeDraft(
            experiment=experiment,
            trials=dict(known.trials),
            runs=runs,
            attempts=attempts,
            searcher=searcher,
            new_run=self.new_runs(experiment),
            now=self._control.clock.now(),
            before=experiment,
        )

    def take(self, draft: ChangeDraft, after: Experiment) -> None:
        """The change was made."""
        self._known[after.id] = _Known(after, draft.trials, draft.searcher)
        left = [each for each in self._pending.get(after.id, ()) if each.id > after.cursor]
        self._pending[after.id] = left

    def drop(self, experiment_id: str) -> None:
        """The change was not made: the durable state is read again."""
        self._known.pop(experiment_id, None)

    def trials(self, experiment_id: str) -> dict[int, Trial]:
        """The last known trials; the caller must not change them."""
        known = self._known.get(experiment_id) or self._load(experiment_id)
        return known.trials if known is not None else {}

    def runs_of(self, trials: Mapping[int, Trial]) -> dict[str, Run]:
        """The runs of all trials that have not ended."""
        run_ids = [trial.run_id for trial in trials.values() if trial.state is not TrialState.ENDED]
        with self._control.lock:
            live = self._control.run_cache().runs
            found = {run_id: live[run_id] for run_id in run_ids if run_id in live}
        if missing := [run_id for run_id in run_ids if run_id not in found]:
            found |= self._control.store.load_runs(missing)
        return found

    def new_runs(self, experiment: Experiment) -> NewTrialRun:
        """The function that makes the runs of trials."""
        control = self._control

        def new_run(spec: RunSpec) -> NewRun:
            now = control.clock.now()
            return new_trial_run(experiment, spec, run_id=control.ids.run_id(now), now=now)

        return new_run

    def _load(self, experiment_id: str) -> _Known | None:
        store = self._control.store.experiments
        while (experiment := store.experiment(experiment_id)) is not None:
            trials = {trial.number: trial for trial in store.trials(experiment_id)}
            again = store.experiment(experiment_id)
            if again is not None and again.seq == experiment.seq:  # otherwise it changed between the two
                known = self._known[experiment_id] = _Known(experiment, trials, None)
                return known
        return None


def _report(event: MetricEvent) -> TrialReport:
    body = event.body
    metric = body["metric"] if body["metric"] is not None else nan
    return TrialReport(id=event.id, trial=body["trial"], length=body["length"], metric=metric)


def new_trial_run(experiment: Experiment, spec: RunSpec, *, run_id: str, now: float) -> NewRun:
    """The run of a trial, queued at once: its code was staged with the experiment."""
    events = (RunEvent.STAGED,)
    run = Run(
        id=run_id,
        spec=spec,
        user=experiment.user,
        state=states(INITIAL_STATE, events),
        seq=1 + len(events),
        created_at=now,
        queued_at=now,
        code_digest=experiment.code_digest,
        code_commit=experiment.code_commit,
        server=experiment.server,
    )
    return NewRun(run=run, events=events)
