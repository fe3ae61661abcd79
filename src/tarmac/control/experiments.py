"""Experiments as users see and command them. Made by `service`; every method may be called from any thread.

A command is decided on durable state and made in one transaction with its effect on the runs of trials.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tarmac import api
from tarmac.control.admission import Admission, Submission, completed, same_request
from tarmac.control.decisions import steps
from tarmac.control.decisions.trials import ChangeDraft
from tarmac.control.permissions import Action, check
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.searches import Searches
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused, Unavailable, nearest
from tarmac.model.experiment import Experiment, ExperimentQuery, Trial
from tarmac.model.lifecycle import ExperimentState
from tarmac.model.ports import ResolveReferences
from tarmac.model.run import Run
from tarmac.model.search import HALVING, SAMPLERS, SearchMethod
from tarmac.model.spec import LocalDirectory, Repository, RunSpec
from tarmac.search.rungs import preview

COMMAND_TRIES = 20
"""The number of attempts to decide a command if the experiment changes meanwhile."""

Decide = Callable[[ChangeDraft], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """A trial and its run; None if the run was removed."""

    trial: Trial
    run: Run | None


@dataclass(frozen=True, slots=True)
class ExperimentService:
    """Commands and questions about experiments. Errors are those of `service.ControlPlane`."""

    control: ControlState
    admission: Admission
    searches: Searches
    resolve: ResolveReferences

    # --- commands

    def create(self, submission: Submission, *, parent: str | None = None) -> Experiment:
        """Begin a search durably: its first trials are queued, unless it is to start paused.

        The code is staged here, once for all trials. Raises Refused for trials that can never fit.
        """
        control = self.control
        spec = self.resolve(completed(submission, control).spec, submission.actor)
        check(submission.actor, Action.SUBMIT, project=spec.project)
        if spec.search is None:
            raise InvalidInput("this describes one run, not an experiment", hint="a search, or --sweep")
        now = control.clock.now()
        staged = control.code.stage(spec.code) if spec.code is not None else None
        code = spec.code
        if staged is not None and isinstance(code, LocalDirectory):
            code = replace(code, digest=staged.digest)
        elif staged is not None and isinstance(code, Repository):
            code = replace(code, commit=staged.commit or code.commit)
        experiment = Experiment(
            id=control.ids.run_id(now),
            spec=replace(spec, code=code, start_paused=False),
            user=submission.actor.user,
            created_at=now,
            server=control.server,
            parent=parent,
            code_digest=staged.digest if staged is not None else None,
            code_commit=staged.commit if staged is not None else None,
            idempotency_key=submission.idempotency_key,
        )
        draft = ChangeDraft(
            experiment=experiment,
            searcher=self.searches.start(experiment.search),
            new_run=self.searches.new_runs(experiment),
            now=now,
        )
        draft.begin()
        first = draft.new_runs[0].run.spec
        self.admission.new_run(replace(submission, spec=first), now)  # raises Refused if it can never fit
        if spec.start_paused:
            draft.pause()
        stored = control.create_experiment(draft.change())
        specs = [replace(each.spec, code=None) for each in (stored, experiment)]
        if stored.id != experiment.id and not same_request(*specs):
            raise Refused(
                f"the key {stored.idempotency_key!r} was used for another experiment, {stored.id}",
                hint="use a new key for a new experiment",
            )
        return stored

    def pause(self, actor: Actor, reference: str) -> Experiment:
        """Pause every active trial with its checkpoint; no other trial begins."""

        def decide(draft: ChangeDraft) -> None:
            _refuse_ended(draft.experiment, "paused")
            if draft.experiment.state is ExperimentState.ACTIVE:
                draft.pause()

        return self._command(actor, reference, decide)

    def activate(self, actor: Actor, reference: str) -> Experiment:
        """Resume the trials of a paused experiment from their checkpoints."""

        def decide(draft: ChangeDraft) -> None:
            _refuse_ended(draft.experiment, "activated")
            if draft.experiment.state is ExperimentState.PAUSED:
                draft.activate()

        return self._command(actor, reference, decide)

    def stop(self, actor: Actor, reference: str, *, at_once: bool = False) -> Experiment:
        """Stop the experiment and its trials for good; `at_once` gives them no grace.

        An ended experiment stays unchanged; a stopping one changes only with `at_once`.
        """

        def decide(draft: ChangeDraft) -> None:
            stopping = draft.experiment.state is ExperimentState.STOPPING
            if draft.experiment.state is not ExperimentState.ENDED and (at_once or not stopping):
                draft.stop(at_once=at_once)
                draft.settle()

        return self._command(actor, reference, decide)

    def go_on(
        self, actor: Actor, reference: str, *, change: Callable[[RunSpec], RunSpec] | None = None
    ) -> Experiment:
        """Continue an ended experiment: its failed or stopped trials run again.

        Each begins from the last checkpoint of its run. Raises Refused for searches that compare trials, and
        if every trial came to its end. `change` returns a new spec for an experiment of a single trial, which
        then continues with it even if it had completed; all other experiments are refused.
        """

        def decide(draft: ChangeDraft) -> None:
            experiment = draft.experiment
            if experiment.state is not ExperimentState.ENDED:
                raise Refused(
                    f"{_named(experiment)} has not ended: it is {experiment.state}",
                    hint=f"tarmac experiment activate {experiment.id} goes on with one that is paused",
                )
            if experiment.search.method in HALVING | SAMPLERS or experiment.search.pruner is not None:
                raise Refused(
                    f"{_named(experiment)} cannot be continued: its search has compared all its trials",
                    hint=f"tarmac experiment fork {experiment.id} begins another of its configuration",
                )
            if change is not None:
                self._go_on_by(draft, change(experiment.spec), actor)
                return
            draft.go_on(self._from_checkpoint)
            if not draft.new_runs:
                raise Refused(f"{_named(experiment)} has nothing to go on with: every trial has completed")

        return self._command(actor, reference, decide)

    def set_archived(self, actor: Actor, reference: str, archived: bool) -> Experiment:
        """Hide an ended experiment from plain lists, or show it again."""

        def decide(draft: ChangeDraft) -> None:
            if draft.experiment.state is not ExperimentState.ENDED:
                raise Refused(f"{_named(draft.experiment)} has not ended", hint="stop it first")
            draft.experiment = replace(draft.experiment, archived=archived)

        return self._command(actor, reference, decide)

    def change_spec(self, actor: Actor, reference: str, change: Callable[[RunSpec], RunSpec]) -> Experiment:
        """Change the name, labels or limits of the experiment and of trials that it begins later.

        Its slot limit applies to the present trials as well. `change` may be called several times.
        """
        return self._command(actor, reference, lambda draft: draft.change_spec(change(draft.experiment.spec)))

    def reject_trial(self, actor: Actor, run_id: str) -> Trial:
        """A trial reports that its parameters are invalid: it is ended, and another takes its place."""
        trial = self.control.store.experiments.trial_of(run_id)
        if trial is None:
            raise NotFound(f"run {run_id} is no trial of an experiment")
        self._command(actor, trial.experiment, lambda draft: draft.reject(trial.number))
        return replace(trial, invalid=True)

    def remove(self, actor: Actor, reference: str) -> tuple[Experiment, Sequence[Trial]]:
        """Remove an ended experiment; returns it with its trials, whose runs the caller has to remove."""
        experiment = self._own(actor, reference)
        trials = self.control.store.experiments.trials(experiment.id)
        if not self.control.store.experiments.remove(experiment.id):
            raise Refused(
                f"{_named(experiment)} has not ended: it is {experiment.state}",
                hint=f"tarmac experiment stop {experiment.id}",
            )
        self.searches.drop(experiment.id)
        return experiment, trials

    # --- questions

    def find(self, actor: Actor, reference: str) -> Experiment:
        """The experiment that an actor means: id, name (newest, own first), unique prefix of an id."""
        check(actor, Action.READ)
        store = self.control.store.experiments
        found = store.find(reference, user=actor.user, sight=actor.sees)
        if not found:
            raise NotFound(f"there is no experiment {reference!r}", hint=self._nearest(actor, reference))
        if len(found) > 1 and reference not in (found[0].name, found[0].id):
            listed = ", ".join(_named(each) for each in found)
            raise Refused(f"{reference!r} means several experiments: {listed}", hint="give more of the id")
        return found[0]

    def experiments(self, actor: Actor, query: ExperimentQuery) -> list[Experiment]:
        """A page of the list, newest first."""
        check(actor, Action.READ)
        return self.control.store.experiments.experiments(replace(query, sight=actor.sees))

    def trials(self, actor: Actor, experiment: Experiment) -> list[TrialRow]:
        """All trials, by number, with the current state of their runs."""
        check(actor, Action.READ)
        trials = self.control.store.experiments.trials(experiment.id)
        runs = self.control.store.load_runs([trial.run_id for trial in trials])
        return [TrialRow(trial=trial, run=runs.get(trial.run_id)) for trial in trials]

    def rows(self, actor: Actor, experiments: Sequence[Experiment]) -> dict[str, list[TrialRow]]:
        """The trials of several experiments, by id; ended experiments come without runs."""
        check(actor, Action.READ)
        going = {each.id for each in experiments if each.state is not ExperimentState.ENDED}
        trials = self.control.store.experiments.trials_of([each.id for each in experiments])
        runs = self.control.store.load_runs([each.run_id for each in trials if each.experiment in going])
        found: dict[str, list[TrialRow]] = {each.id: [] for each in experiments}
        for trial in trials:
            found[trial.experiment].append(TrialRow(trial=trial, run=runs.get(trial.run_id)))
        return found

    def best(self, actor: Actor, experiment: Experiment, *, limit: int = 1) -> list[TrialRow]:
        """The trials with the best metric, best first, without those that have none."""
        rows = [row for row in self.trials(actor, experiment) if row.trial.best is not None]
        return sorted(rows, key=lambda row: rank(experiment, row.trial))[:limit]

    def preview(self, submission: Submission) -> tuple[api.PreviewLine, ...]:
        """The trials that a search would run; nothing is stored."""
        check(submission.actor, Action.SUBMIT)
        if submission.spec.search is None:
            raise InvalidInput("this describes one run, not an experiment")
        return preview(submission.spec.search)

    def _own(self, actor: Actor, reference: str) -> Experiment:
        """The experiment, which the actor may change."""
        found = self.find(actor, reference)
        check(actor, Action.CONTROL, owner=found.user, project=found.spec.project, what="experiments")
        return found

    def _command(self, actor: Actor, reference: str, decide: Decide) -> Experiment:
        experiment = self._own(actor, reference)
        for _ in range(COMMAND_TRIES):
            with self.control.lock:
                self.searches.drop(experiment.id)  # the decision uses durable state
                draft = self.searches.draft(experiment.id)
                if draft is None:
                    raise NotFound(f"there is no experiment {reference!r}")
                before = draft.experiment
                decide(draft)
                self.searches.drop(experiment.id)
                if draft.experiment == before and not draft.touched and not draft.run_steps:
                    return before
                draft.run_steps = [steps.caused_by(actor, step) for step in draft.run_steps]
                change = draft.change()
                if self.control.commit_experiment(change):
                    self.control.wake_search()
                    return change.after
        raise Unavailable(f"experiment {experiment.id} changes too quickly", hint="try again")

    def _go_on_by(self, draft: ChangeDraft, spec: RunSpec, actor: Actor) -> None:
        """Continue an experiment of a single trial with another spec. Raises Refused for any other.

        It may use the own secrets of the actor only in an experiment of the actor.
        """
        search = spec.search
        if search is None or {search.method, draft.experiment.search.method} != {SearchMethod.SINGLE}:
            raise Refused(
                f"{_named(draft.experiment)} can only be continued with the configuration that it has:"
                " another is for an experiment of a single trial",
                hint=f"tarmac experiment fork {draft.experiment.id} begins another with a changed one",
            )
        by = actor if actor.user == draft.experiment.user else replace(actor, user="")
        draft.go_on_by(self.resolve(spec, by), self.searches.start(search), self._from_checkpoint)

    def _from_checkpoint(self, spec: RunSpec, trial: Trial) -> RunSpec:
        """The spec of a trial that begins from the last checkpoint of its run, if there is one."""
        try:
            return self.resolve(replace(spec, input_artifacts=(*spec.input_artifacts, trial.run_id)), None)
        except InvalidInput:
            return spec

    def _nearest(self, actor: Actor, reference: str) -> str:
        recent = self.experiments(actor, ExperimentQuery())
        near = nearest(reference, [each.name for each in recent] + [each.id for each in recent])
        if near:
            return f"did you mean {near}?"
        return "tarmac experiment ls lists them" if recent else "there is no experiment yet"


def rank(experiment: Experiment, trial: Trial) -> tuple[float, int]:
    """The sort key of trials: best first; among equals the older first."""
    best = trial.best if trial.best is not None else float("inf")
    return (best if experiment.search.smaller_is_better else -best, trial.number)


def _named(experiment: Experiment) -> str:
    return f"{experiment.name} ({experiment.id})"


def _refuse_ended(experiment: Experiment, what: str) -> None:
    if experiment.state in (ExperimentState.ENDED, ExperimentState.STOPPING):
        state = f"has ended ({experiment.outcome})" if experiment.outcome else f"is {experiment.state}"
        raise Refused(
            f"{_named(experiment)} {state} and cannot be {what}",
            hint=f"tarmac experiment continue {experiment.id} goes on with it",
        )
