"""Makes the answers about experiments and trials. Called by their routes."""

from collections.abc import Sequence
from math import isfinite

from tarmac import api
from tarmac.control.experiments import TrialRow
from tarmac.dialects.native.search import written_parameters
from tarmac.model.codec import common
from tarmac.model.experiment import Experiment
from tarmac.server.records.runs import source_shown


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
