"""Turns requests of a search into changes of trials and runs. Pure; called by the search pass and commands.

`ChangeDraft` collects the parts of one change of an experiment: its runs and trials after the change.
`kept_checkpoints` selects the checkpoints that an experiment's policy retains, for
`server.storage.trial_checkpoints`: after the others are removed the decision is the same, so an interrupted
removal is simply repeated.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tarmac.control.decisions import steps
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.codec import replace
from tarmac.model.experiment import Experiment, ExperimentChange, Trial, TrialReport
from tarmac.model.lifecycle import RUN_TABLE, ExperimentState, RunEvent, RunState, TrialState
from tarmac.model.metrics import MetricReport
from tarmac.model.progress import Outcome
from tarmac.model.run import Attempt, Run
from tarmac.model.search import CheckpointPolicy, TrialPlace
from tarmac.model.spec import RunSpec
from tarmac.search.moves import Create, Ended, Finish, GoOn, Operation, Stop, TrialEnd, Validation, Wait
from tarmac.search.searching import Search

CLOSED = "closed"
"""The exit reason of a trial whose search ended it."""

LONGEST_NAME = 63

UNLIMITED = 2**31 - 1
"""The slot limit in the position of a run whose experiment no longer has one."""

NewTrialRun = Callable[[RunSpec], NewRun]
"""Creates the record of a run."""

_PAUSED = frozenset({RunState.PAUSED, RunState.PAUSING})


def trial_spec(experiment: Experiment, create: Create) -> RunSpec:
    """The spec of a trial: that of its experiment, with values in place of the search."""
    spec, search = experiment.spec, experiment.search
    end = f"-{create.trial}"
    return replace(
        spec,
        name=spec.name[: LONGEST_NAME - len(end)].rstrip("-._") + end,
        unique_name=False,
        start_paused=False,
        search=None,
        target=spec.target if spec.rehearsal is None else spec.target_of(experiment.id),
        parameters=merged(spec.parameters or {}, create.parameters),
        trial=TrialPlace(
            experiment=experiment.id,
            number=create.trial,
            metric=search.metric,
            metric_group=search.metric_group,
            time_metric=search.time_metric,
            seed=create.seed,
            max_slots=search.max_slots,
        ),
    )


def trial_report(run: Run, report: MetricReport) -> Mapping[str, Any] | None:
    """A trial's report in the JSON form for its search; None if it has no part for the search."""
    trial = run.spec.trial
    if trial is None or trial.metric_group not in (None, report.group):
        return None
    metric = report.values.get(trial.metric)
    length = report.step if trial.time_metric is None else report.values.get(trial.time_metric)
    if metric is None or length is None or not isfinite(length):
        return None
    value = metric if isfinite(metric) else None
    return {"experiment": trial.experiment, "trial": trial.number, "length": length, "metric": value}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The merged nested values; those of `above` take precedence."""
    result = dict(below)
    for name, value in above.items():
        inner = result.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            result[name] = merged(inner, value)
        else:
            result[name] = value
    return result


@dataclass(slots=True, kw_only=True)
class ChangeDraft:
    """One undecided change of an experiment.

    `runs` and `attempts` are the required ones of its trials; `now` is the time of the change.
    """

    experiment: Experiment
    searcher: Search
    new_run: NewTrialRun
    now: float
    runs: dict[str, Run] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    before: Experiment | None = None
    touched: dict[int, Trial] = field(default_factory=dict)
    new_runs: list[NewRun] = field(default_factory=list)
    run_steps: list[RunStep] = field(default_factory=list)

    def begin(self) -> None:
        """Begin the first trials."""
        self._carry_out(self.searcher.begin())

    def report(self, report: TrialReport) -> None:
        """A trial has reported the metric."""
        self.experiment = replace(self.experiment, cursor=report.id)
        trial = self.trials.get(report.trial)
        if trial is None:
            return
        better = trial.best is None or (
            report.metric < trial.best
            if self.experiment.search.smaller_is_better
            else report.metric > trial.best
        )
        trial = replace(trial, latest=report.metric, at=report.length)
        if better and report.metric == report.metric:
            trial = replace(trial, best=report.metric, best_at=report.length)
        self._put(trial)
        if trial.state is not TrialState.ENDED and self.experiment.state is ExperimentState.ACTIVE:
            self._carry_out(self.searcher.handle(Validation(trial.number, report.length, report.metric)))

    def end(self, trial: Trial, run: Run | None) -> None:
        """The run of a trial has ended; None if it was removed."""
        how = TrialEnd.STOPPED if run is None or run.outcome is None else TrialEnd(run.outcome.value)
        if trial.invalid:
            how = TrialEnd.INVALID
        closed = trial.state is TrialState.CLOSING and how is TrialEnd.STOPPED
        self._put(replace(trial, state=TrialState.ENDED, end=CLOSED if closed else how.value))
        if self.experiment.state is ExperimentState.ACTIVE:  # otherwise it may be continued, and ends again
            self._carry_out(self.searcher.handle(Ended(trial.number, how)))

    def pause(self) -> None:
        """Pause every active trial."""
        self.experiment = replace(self.experiment, state=ExperimentState.PAUSED)
        for trial in self._going():
            self._pause(trial)

    def activate(self) -> None:
        """Resume every trial that does not wait for the search."""
        self.experiment = replace(self.experiment, state=ExperimentState.ACTIVE)
        for trial in self._going():
            self._resume(trial)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop every trial; the experiment ends with the last of them."""
        self.experiment = replace(self.experiment, state=ExperimentState.STOPPING)
        for trial in self._left():
            self._stop(trial, at_once=at_once)

    def go_on(self, spec_of: Callable[[RunSpec, Trial], RunSpec]) -> None:
        """Continue an ended experiment: rerun failed and stopped trials with the spec from `spec_of`."""
        self._reopen()
        for trial in list(self.trials.values()):
            if trial.end in (TrialEnd.FAILED, TrialEnd.STOPPED):
                create = Create(trial.number, trial.parameters, trial.seed, trial.length)
                self.searcher.reopen(trial.number)
                self._begin_run(trial, create, spec_of(trial_spec(self.experiment, create), trial))

    def go_on_by(self, spec: RunSpec, searcher: Search, spec_of: Callable[[RunSpec, Trial], RunSpec]) -> None:
        """Continue an ended experiment with another spec and its trials; `searcher` has not begun."""
        self.experiment = replace(self.experiment, spec=spec)
        self.searcher = searcher
        self._reopen()
        for operation in searcher.begin():
            trial = self.trials.get(operation.trial) if isinstance(operation, Create) else None
            if isinstance(operation, Create) and trial is not None:
                spec = spec_of(trial_spec(self.experiment, operation), trial)
                self._begin_run(trial, operation, spec)
            else:
                self._carry_out([operation])

    def change_spec(self, spec: RunSpec) -> None:
        """Change the spec of later trials; its slot limit applies to all trials."""
        before, most = self.experiment.search.max_slots, spec.search.max_slots if spec.search else None
        self.experiment = replace(self.experiment, spec=spec)
        for trial in self._left() if most != before else ():
            run = self._possible(trial, RunEvent.REORDERED)
            if run is not None:
                position = replace(run.place, max_slots=UNLIMITED if most is None else most)
                self._step(steps.reordered(run, position, {"max_slots": most}, self.now))

    def reject(self, number: int) -> None:
        """A trial reports that its parameters are invalid."""
        trial = self.trials[number]
        if trial.state is not TrialState.ENDED and not trial.invalid:
            self._stop(self._put(replace(trial, invalid=True)))

    def settle(self) -> None:
        """End a stopped experiment once the last of its trials has ended."""
        if self.experiment.state is ExperimentState.STOPPING and not self._left():
            self._end(Outcome.STOPPED, "stopped by request")

    def change(self) -> ExperimentChange:
        """The complete change."""
        before = self.before
        after = replace(
            self.experiment,
            seq=1 if before is None else before.seq + 1,
            search_state=self.searcher.state,
            progress=1.0 if self.experiment.outcome is Outcome.COMPLETED else self.searcher.progress,
        )
        return ExperimentChange(
            before=before,
            after=after,
            trials=tuple(self.touched[number] for number in sorted(self.touched)),
            new_runs=tuple(self.new_runs),
            steps=tuple(self.run_steps),
        )

    def _carry_out(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            match operation:
                case Create(trial=number):
                    trial = Trial(experiment=self.experiment.id, number=number, run_id="")
                    self._begin_run(trial, operation, trial_spec(self.experiment, operation))
                case GoOn(trial=number, length=length):
                    trial = self._put(replace(self.trials[number], length=length, state=TrialState.OPEN))
                    self._resume(trial)
                case Wait(trial=number):
                    self._pause(self._put(replace(self.trials[number], state=TrialState.WAITING)))
                case Stop(trial=number):
                    self._stop(self._put(replace(self.trials[number], state=TrialState.CLOSING)))
                case Finish(end=end):
                    alike = None if end is TrialEnd.COMPLETED else f"every trial {end}"
                    self._end(Outcome(end.value), alike)

    def _reopen(self) -> None:
        self.experiment = replace(
            self.experiment, state=ExperimentState.ACTIVE, outcome=None, message=None, ended_at=None
        )

    def _begin_run(self, trial: Trial, create: Create, spec: RunSpec) -> None:
        """Begin a trial, for the first time or again, with a new run of this spec."""
        new = self.new_run(spec)
        self.new_runs.append(new)
        self.runs[new.run.id] = new.run
        self._put(
            replace(
                trial,
                run_id=new.run.id,
                parameters=create.parameters,
                seed=create.seed,
                length=create.length,
                state=TrialState.OPEN,
                end=None,
                invalid=False,
            )
        )

    def _end(self, outcome: Outcome, message: str | None) -> None:
        self.experiment = replace(
            self.experiment, state=ExperimentState.ENDED, outcome=outcome, message=message, ended_at=self.now
        )

    def _put(self, trial: Trial) -> Trial:
        self.trials[trial.number] = self.touched[trial.number] = trial
        return trial

    def _going(self) -> list[Trial]:
        return [trial for trial in self._left() if trial.state is TrialState.OPEN]

    def _left(self) -> list[Trial]:
        return [trial for trial in self.trials.values() if trial.state is not TrialState.ENDED]

    def _pause(self, trial: Trial) -> None:
        run = self._possible(trial, RunEvent.PAUSE_REQUESTED)
        if run is not None and run.state not in _PAUSED:
            self._step(steps.pause_run(run, self.attempts.get(run.id), self.now))

    def _resume(self, trial: Trial) -> None:
        run = self._possible(trial, RunEvent.RESUME_REQUESTED)
        if run is not None:
            self._step(steps.resume_run(run, self.now))

    def _stop(self, trial: Trial, *, at_once: bool = False) -> None:
        run = self.runs.get(trial.run_id)
        leaves = run is not None and run.state is RunState.STOPPING
        if run is not None and ((leaves and at_once) or self._possible(trial, RunEvent.STOP_REQUESTED)):
            self._step(steps.stop_run(run, self.attempts.get(run.id), self.now, at_once=at_once))

    def _possible(self, trial: Trial, event: RunEvent) -> Run | None:
        """The run of a trial, if its state permits this event."""
        run = self.runs.get(trial.run_id)
        return run if run is not None and event in RUN_TABLE[run.state] else None

    def _step(self, step: RunStep) -> None:
        self.run_steps.append(step)
        self.runs[step.after.id] = step.after


def ended_trials(trials: Collection[Trial], runs: Mapping[str, Run]) -> list[Trial]:
    """The trials with an ended or removed run whose end their search does not know yet."""
    return [
        trial
        for trial in trials
        if trial.state is not TrialState.ENDED
        and ((run := runs.get(trial.run_id)) is None or run.state is RunState.ENDED)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheckpoint:
    """A checkpoint of a trial: the files of one node (by rank), with their time in seconds.

    `metric` is the trial's last report before it, less is better; None without a report.
    """

    id: str
    trial: int
    rank: int
    made_at: float
    metric: float | None = None


def kept_checkpoints(policy: CheckpointPolicy, checkpoints: Sequence[TrialCheckpoint]) -> set[str]:
    """The ids of the retained checkpoints. A checkpoint without a metric ranks below all with one."""
    if policy.every:
        return {each.id for each in checkpoints}
    newest = sorted(checkpoints, key=lambda each: (-each.made_at, each.id))
    best = sorted(newest, key=lambda each: (each.metric is None, each.metric or 0.0))  # then the newest
    of_rank, of_trial, latest = Counter[int](), Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    kept: set[str] = set()
    for each in best:
        of_rank[each.rank] += 1
        of_trial[each.rank, each.trial] += 1
        place = of_trial[each.rank, each.trial]
        if of_rank[each.rank] <= policy.experiment_best or place <= policy.trial_best:
            kept.add(each.id)
    for each in newest:
        latest[each.rank, each.trial] += 1
        if latest[each.rank, each.trial] <= policy.trial_latest:
            kept.add(each.id)
    return kept
