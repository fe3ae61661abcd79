"""Converts experiments and trials into records of `tarmac.api`. Called by the routes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from tarmac import api
from tarmac.control.experiments import TrialRow
from tarmac.dialects.native.search import written_parameters
from tarmac.model.codec import encode
from tarmac.model.experiment import Experiment
from tarmac.model.search import SearchSpec
from tarmac.search import PreviewLine
from tarmac.server.records.copying import copy_fields
from tarmac.server.records.runs import source_shown


def experiment_record(experiment: Experiment, *, warnings: Sequence[str] = ()) -> api.Experiment:
    """An experiment, with secrets hidden."""
    return copy_fields(
        api.Experiment,
        experiment,
        dialect=experiment.spec.dialect,
        search=search_record(experiment.search),
        source=source_shown(experiment.spec),
        labels=experiment.spec.labels,
        warnings=warnings,
    )


def search_record(search: SearchSpec) -> api.Search:
    """A search, with its parameters nested as in a run file."""
    return copy_fields(api.Search, search, parameters=written_parameters(search))


def trial_record(row: TrialRow) -> api.Trial:
    """A trial, with the facts about its run."""
    trial, run = row.trial, row.run
    return copy_fields(
        api.Trial,
        trial,
        run=trial.run_id,
        name=run.name if run is not None else "",
        parameters=encode(trial.parameters),
        run_state=run.state if run is not None else None,
        latest=_finite(trial.latest),
        best=_finite(trial.best),
        attempt=run.attempt if run is not None else 0,
        slot_s=run.attained_slot_s if run is not None else 0.0,
    )


def preview_record(line: PreviewLine) -> api.PreviewLine:
    """One line of a preview."""
    return copy_fields(api.PreviewLine, line)


def _finite(value: float | None) -> float | None:
    """The value if JSON can represent it."""
    return value if value is not None and isfinite(value) else None
