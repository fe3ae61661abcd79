"""Makes the answers about experiments and trials. Called by their routes."""

from collections.abc import Sequence
from math import isfinite

from tarmac import api
from tarmac.control.experiments import TrialRow
from tarmac.dialects.native.search import written_parameters
from tarmac.model.experiment import Experiment
from tarmac.model.search import SearchSpec
from tarmac.server.records.runs import source_shown


def experiment_record(experiment: Experiment, *, warnings: Sequence[str] = ()) -> api.Experiment:
    """An experiment, with secrets hidden."""
    return api.Experiment(
        id=experiment.id,
        name=experiment.name,
        project=experiment.project,
        user=experiment.user,
        dialect=experiment.spec.dialect,
        state=experiment.state,
        outcome=experiment.outcome,
        message=experiment.message,
        progress=experiment.progress,
        created_at=experiment.created_at,
        ended_at=experiment.ended_at,
        archived=experiment.archived,
        parent=experiment.parent,
        search=search_record(experiment.search),
        source=source_shown(experiment.spec),
        labels=experiment.spec.labels,
        warnings=warnings,
    )


def search_record(search: SearchSpec) -> api.Search:
    """A search, with its parameters nested as in a run file."""
    return api.Search(
        method=search.method,
        metric=search.metric,
        smaller_is_better=search.smaller_is_better,
        parameters=written_parameters(search),
        seed=search.seed,
        max_trials=search.max_trials,
        max_concurrent_trials=search.max_concurrent_trials,
        max_time=search.max_time,
        time_metric=search.time_metric,
        max_slots=search.max_slots,
    )


def trial_record(row: TrialRow) -> api.Trial:
    """A trial, with the facts about its run."""
    trial, run = row.trial, row.run
    return api.Trial(
        number=trial.number,
        run=trial.run_id,
        name=run.name if run is not None else "",
        parameters=trial.parameters,
        state=trial.state,
        run_state=run.state if run is not None else None,
        end=trial.end,
        length=trial.length,
        latest=_finite(trial.latest),
        at=trial.at,
        best=_finite(trial.best),
        best_at=trial.best_at,
        attempt=run.attempt if run is not None else 0,
        slot_s=run.attained_slot_s if run is not None else 0.0,
    )


def _finite(value: float | None) -> float | None:
    """The value if JSON can represent it."""
    return value if value is not None and isfinite(value) else None
