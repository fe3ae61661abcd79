"""Experiments and commands to them, metrics across runs, and numbers. Joined by `server.app`."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from tarmac import api
from tarmac.api.operation import Query, RunScope
from tarmac.control.experiments import TrialRow
from tarmac.control.metrics import ChosenSeries
from tarmac.control.state.metric_intake import value_text
from tarmac.dialects.native.search import written_parameters
from tarmac.model.codec import common
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.experiment import Experiment, ExperimentQuery
from tarmac.model.metrics import NO_STEP
from tarmac.model.run_records import NumberKind
from tarmac.node.files.masking import Mask
from tarmac.server.http.routing import Call, serve, whole
from tarmac.server.records import source_shown
from tarmac.server.service import Handlers, Service
from tarmac.server.submitting.submissions import Draft, after_hook_here, planned, prepare


class ExperimentHandlers(Handlers):
    """The routes about experiments, metrics and numbers."""

    @serve(api.CREATE_EXPERIMENT)
    def create(self, call: Call[Query, api.ExperimentBody]) -> api.Experiment:
        """Start a search: from a run file with one, from `sweep`, or with `fork` from another experiment.

        The runs of the first trials exist when the answer is sent.
        """
        draft = Draft(caller=call.caller, body=call.body, rules=self.service.reading)
        parent = None
        if call.body.fork is not None:
            original = self.plane.experiments.find(call.actor, call.body.fork)
            draft, parent = replace(draft, base=original.spec), original.id
        prepared = prepare(after_hook_here(self.service, draft), self.plane)
        created = self.plane.experiments.create(prepared.submission, parent=parent)
        return experiment_record(created, warnings=prepared.warnings)

    @serve(api.PREVIEW_SEARCH)
    def preview(self, call: Call[Query, api.ExperimentBody]) -> list[api.PreviewLine]:
        """Return the number and lengths of a search's trials; stores nothing."""
        draft = Draft(caller=call.caller, body=call.body, rules=self.service.reading)
        prepared = planned(draft, self.plane)
        return list(self.plane.experiments.preview(prepared.submission))

    @serve(api.EXPERIMENTS)
    def experiments(self, call: Call[api.ExperimentsQuery]) -> api.ExperimentPage:
        """Return a page of the list of experiments, newest first."""
        chosen = call.query
        query = ExperimentQuery(
            states=frozenset(chosen.state),
            user=call.actor.user if chosen.scope is RunScope.MINE else chosen.user,
            project=chosen.project,
            archived=chosen.archived,
            before_id=chosen.before,
            limit=chosen.limit,
        )
        page = self.plane.experiments.experiments(call.actor, query)
        following = page[-1].id if len(page) == query.limit else None
        return api.ExperimentPage(experiments=[experiment_record(each) for each in page], next=following)

    @serve(api.METRICS)
    def metrics(self, call: Call[api.MetricsQuery]) -> list[api.MetricSeries]:
        """Return the metrics of these runs, in their order: a summary of each, and points if requested.

        404 for a name that none of the runs has reported.
        """
        series = self.plane.metrics(call.actor, call.query.run, call.query)
        runs = {each.run.id: each.run for each in series}
        masks = {run_id: self.service.secrets.mask(of) for run_id, of in runs.items()}
        return [series_record(each, masks[each.run.id]) for each in series]

    @serve(api.EXPERIMENT)
    def experiment(self, call: Call) -> api.Experiment:
        """Return an experiment, by id, unique beginning of an id, or name (the newest of that name)."""
        return experiment_record(self.plane.experiments.find(call.actor, call.reference))

    @serve(api.TRIALS)
    def trials(self, call: Call) -> list[api.Trial]:
        """Return all trials of an experiment with their runs, by number."""
        rows = self.plane.experiments.trials(
            call.actor, self.plane.experiments.find(call.actor, call.reference)
        )
        return [trial_record(row) for row in rows]

    @serve(api.BEST_TRIALS)
    def best_trials(self, call: Call[api.BestQuery]) -> list[api.Trial]:
        """Return the trials with the best metric, best first."""
        experiment = self.plane.experiments.find(call.actor, call.reference)
        rows = self.plane.experiments.best(call.actor, experiment, limit=call.query.limit)
        return [trial_record(row) for row in rows]

    @serve(api.REMOVE_EXPERIMENT)
    def remove(self, call: Call) -> api.Experiment:
        """Remove an ended experiment, with its trials' runs, files and artifacts."""
        found, trials = self.plane.experiments.remove(call.actor, call.reference)
        for trial in trials:
            self.service.remover.remove_if_there(call.actor, trial.run_id)
        return experiment_record(found)

    @serve(api.STOP_EXPERIMENT)
    def stop(self, call: Call[api.StopQuery]) -> api.Experiment:
        """End an experiment and its trials for good (`now`: without their grace)."""
        return experiment_record(
            self.plane.experiments.stop(call.actor, call.reference, at_once=call.query.now)
        )

    @serve(api.ARCHIVE_EXPERIMENT)
    def archive(self, call: Call[api.ArchiveQuery]) -> api.Experiment:
        """Hide an ended experiment from plain lists, or (`archived=false`) show it again."""
        archived = call.query.archived
        return experiment_record(self.plane.experiments.set_archived(call.actor, call.reference, archived))

    @serve(api.PAUSE_EXPERIMENT)
    def pause_experiment(self, call: Call) -> api.Experiment:
        """Pause every active trial with its checkpoint, and start no further trials."""
        return experiment_record(self.plane.experiments.pause(call.actor, call.reference))

    @serve(api.ACTIVATE_EXPERIMENT)
    def activate_experiment(self, call: Call) -> api.Experiment:
        """Resume the trials of a paused experiment."""
        return experiment_record(self.plane.experiments.activate(call.actor, call.reference))

    @serve(api.CONTINUE_EXPERIMENT)
    def continue_experiment(self, call: Call) -> api.Experiment:
        """Continue an ended experiment: trials that failed or were stopped run again."""
        return experiment_record(self.plane.experiments.go_on(call.actor, call.reference))

    @serve(api.NUMBERS)
    def numbers(self, call: Call[api.NumbersQuery]) -> dict[str, api.Numbers]:
        """Return the numbers of runs in their system's command, by id; runs without a number are omitted."""
        return numbers_of(self.service, call.query.run)

    @serve(api.NUMBERED_EXPERIMENT)
    def numbered(self, call: Call) -> api.Numbered:
        """Return the experiment, or the standalone run, with this number in its system's command."""
        number = whole(call.reference)
        if number is None:
            raise InvalidInput(f"number: {call.reference!r:.80} is not a whole number")
        found = self.service.numbers.numbered(NumberKind.EXPERIMENT, number)
        if found is None:
            raise NotFound(f"nothing has the number {number}")
        return api.Numbered(id=found)


def numbers_of(service: Service, run_ids: Sequence[str]) -> dict[str, api.Numbers]:
    """The numbers of those runs that have some, by id."""
    known_numbers = service.numbers
    trials = known_numbers.known(NumberKind.TRIAL, run_ids)
    runs = service.plane.control.store.load_runs(list(trials)).values()
    experiments = {
        run.id: run.spec.trial.experiment if run.spec.trial is not None else run.id for run in runs
    }
    known = known_numbers.known(NumberKind.EXPERIMENT, list(dict.fromkeys(experiments.values())))
    return {
        run_id: api.Numbers(experiment=known[experiment], trial=trials[run_id])
        for run_id, experiment in experiments.items()
        if experiment in known
    }


def experiment_record(experiment: Experiment, *, warnings: Sequence[str] = ()) -> api.Experiment:
    """An experiment, with secrets hidden."""
    search = experiment.search  # its parameters are nested, as in a run file
    return api.Experiment(
        **common(api.Experiment, experiment, but=["search"]),
        dialect=experiment.spec.dialect,
        search=api.Search(**common(api.Search, search), parameters=written_parameters(search)),
        source=source_shown(experiment.spec),
        labels=experiment.spec.labels,
        warnings=warnings,
    )


def trial_record(row: TrialRow) -> api.Trial:
    """A trial, with the facts about its run."""
    trial, run = row.trial, row.run
    return api.Trial(
        **common(api.Trial, trial, but=["latest", "best"]),
        run=trial.run_id,
        name=run.name if run is not None else "",
        run_state=run.state if run is not None else None,
        latest=_finite(trial.latest),
        best=_finite(trial.best),
        attempt=run.attempt if run is not None else 0,
        slot_s=run.attained_slot_s if run is not None else 0.0,
    )


def _finite(value: float | None) -> float | None:
    """The value if JSON can represent it."""
    return value if value is not None and isfinite(value) else None


def series_record(found: ChosenSeries, mask: Mask) -> api.MetricSeries:
    """A series; `mask` hides secrets in names that the run chose."""
    summary, points = found.summary, found.points
    low, high = summary.low, summary.high
    return api.MetricSeries(
        run=found.run.id,
        run_name=found.run.name,
        group=mask.text(summary.key.group),
        name=mask.text(summary.key.name),
        rank=summary.key.rank,
        count=summary.count,
        last=value_text(summary.last.value),
        last_step=summary.last.step,
        last_at=summary.last_at,
        low=low.value if low is not None else None,
        low_step=low.step if low is not None else None,
        high=high.value if high is not None else None,
        high_step=high.step if high is not None else None,
        points=None
        if points is None
        else api.MetricPoints(
            steps=[None if step == NO_STEP else step for step in points.steps],
            times=points.times.tolist(),
            values=[value_text(value) for value in points.values],
            total=found.total,
        ),
    )
