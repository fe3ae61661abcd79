"""Applies the policies of experiments to checkpoints in the artifact store. Called by `ArtifactService`.

A checkpoint is a version of the artifact, or a directory in versions that the code of a trial reported. The
retention by number of versions does not remove checkpoints selected by a policy; once the experiment has
ended, all others are removed.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import Version
from tarmac.control.decisions.trials import TrialCheckpoint, kept_checkpoints
from tarmac.model.experiment import Experiment
from tarmac.model.lifecycle import ExperimentState
from tarmac.model.metrics import SeriesKey
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord
from tarmac.server.storage.reported_checkpoints import is_gone, reduced, steps_of

CHECKPOINT = "checkpoint"


@dataclass(slots=True)
class PolicyAnswer:
    """`kept`: ids of versions to keep regardless of newer ones; `surplus`: versions to remove.

    `deleted`: records of reported checkpoints to remove, marked as deleted.
    """

    kept: set[str] = field(default_factory=set)
    surplus: list[Version] = field(default_factory=list)
    deleted: list[RunRecord] = field(default_factory=list)


def apply_policies(
    store: Store,
    summaries: Sequence[VersionSummary],
    runs: Mapping[str, Run],
    reports: Mapping[str, Sequence[RunRecord]],
    *,
    inputs: Collection[str],
) -> PolicyAnswer:
    """Apply the policy of every experiment with checkpoints of trials in the store.

    A removed experiment, or an ended one with a trial that is still leaving, has no surplus. Reported
    checkpoints are kept while a live run starts from those of their run.
    """
    by_experiment: dict[str, list[VersionSummary]] = defaultdict(list)
    for item in summaries:
        run = runs.get(item.version.run_id)
        if run is not None and run.spec.trial is not None and item.version.kind == CHECKPOINT:
            by_experiment[run.spec.trial.experiment].append(item)
    answer = PolicyAnswer()
    for experiment_id, items in by_experiment.items():
        experiment = store.experiments.experiment(experiment_id)
        if experiment is None:
            continue
        run_ids = sorted({item.version.run_id for item in items})
        found = [each for run_id in run_ids for each in reports.get(run_id, ()) if not is_gone(each)]
        unreported = [item for item in items if not reports.get(item.version.run_id)]
        checkpoints = _checkpoints(store, experiment, unreported, found, runs)
        kept = kept_checkpoints(experiment.search.checkpoints, checkpoints)
        answer.kept |= kept
        ended = all(runs[run_id].ended_at is not None for run_id in run_ids)
        if ended and experiment.state is ExperimentState.ENDED:
            answer.surplus += [item.version for item in unreported if item.version.id not in kept]
            used = {item.version.run_id for item in items if item.version.id in inputs}
            answer.deleted += [
                reduced(each, {}) for each in found if each.name not in kept and each.run_id not in used
            ]
    return answer


def _checkpoints(
    store: Store,
    experiment: Experiment,
    items: Sequence[VersionSummary],
    reported: Sequence[RunRecord],
    runs: Mapping[str, Run],
) -> list[TrialCheckpoint]:
    run_ids = {item.version.run_id for item in items} | {each.run_id for each in reported}
    ratings = _ratings(store, experiment, sorted(run_ids))
    found = []
    for item in items:
        id, run_id, rank = item.version.id, item.version.run_id, item.version.rank
        found.append((id, run_id, rank, item.created_at, _rating_at(ratings[run_id], item.created_at)))
    for each in reported:
        rating = _rating_of(ratings[each.run_id], steps_of(each))
        found.append((each.name, each.run_id, 0, each.at, rating))
    return [
        TrialCheckpoint(id=id, trial=_number(runs[run_id]), rank=rank, made_at=at, metric=rating)
        for id, run_id, rank, at, rating in found
    ]


def _number(run: Run) -> int:
    assert run.spec.trial is not None, "only trials are asked for"
    return run.spec.trial.number


Rating = tuple[float, int, float]
"""The time in seconds and the step of a metric report, and its rating: smaller is better."""


def _ratings(store: Store, experiment: Experiment, run_ids: Sequence[str]) -> dict[str, list[Rating]]:
    """The reports of the search metric by each run, by time."""
    search = experiment.search
    keys: list[SeriesKey] = [
        summary.key
        for summary in store.metrics.summaries(run_ids)
        if summary.key.name == search.metric and search.metric_group in (None, summary.key.group)
    ]
    found: dict[str, list[Rating]] = {run_id: [] for run_id in run_ids}
    sign = 1 if search.smaller_is_better else -1
    for key, points in store.metrics.points(keys).items():
        columns = zip(points.times, points.steps, points.values, strict=True)
        found[key.run_id] += [(at, step, sign * value) for at, step, value in columns if isfinite(value)]
    return {run_id: sorted(ratings) for run_id, ratings in found.items()}


def _rating_at(ratings: Sequence[Rating], made_at: float) -> float | None:
    """The rating of the last report before a version was made."""
    place = bisect_right(ratings, made_at, key=lambda rating: rating[0])
    return ratings[place - 1][2] if place else None


def _rating_of(ratings: Sequence[Rating], steps: int) -> float | None:
    """The rating of the last report for the step of a checkpoint."""
    return next((value for _, step, value in reversed(ratings) if step == steps), None)
