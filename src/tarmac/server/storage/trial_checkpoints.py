"""What the policies of experiments say of the checkpoints in the artifact store. Called by `ArtifactService`.

What a policy keeps is spared by the retention that counts versions; once the experiment has ended, the rest
is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import Version
from tarmac.control.decisions.checkpoints import TrialCheckpoint, kept_checkpoints
from tarmac.model.experiment import Experiment, ExperimentState
from tarmac.model.metric_points import Points
from tarmac.model.metrics import SeriesKey
from tarmac.model.ports import Store
from tarmac.model.run import Run

CHECKPOINT = "checkpoint"


@dataclass(slots=True)
class PolicyAnswer:
    """`kept`: the ids of versions that stay, however many newer there are; `surplus`: those that go."""

    kept: set[str] = field(default_factory=set)
    surplus: list[Version] = field(default_factory=list)


def apply_policies(
    store: Store, summaries: Sequence[VersionSummary], runs: Mapping[str, Run]
) -> PolicyAnswer:
    """Ask the policy of every experiment that has checkpoints of trials in the store.

    An experiment that was removed, or ended with a trial that still leaves, has no surplus.
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
        kept = kept_checkpoints(experiment.search.checkpoints, _checkpoints(store, experiment, items, runs))
        answer.kept |= kept
        ended = all(runs[item.version.run_id].ended_at is not None for item in items)
        if ended and experiment.state is ExperimentState.ENDED:
            answer.surplus += [item.version for item in items if item.version.id not in kept]
    return answer


def _checkpoints(
    store: Store, experiment: Experiment, items: Sequence[VersionSummary], runs: Mapping[str, Run]
) -> list[TrialCheckpoint]:
    series = _metrics(store, experiment, sorted({item.version.run_id for item in items}))
    found = []
    for item in items:
        trial = runs[item.version.run_id].spec.trial
        assert trial is not None, "only trials are asked for"
        found.append(
            TrialCheckpoint(
                id=item.version.id,
                trial=trial.number,
                rank=item.version.rank,
                made_at=item.created_at,
                metric=_metric_at(series.get(item.version.run_id, ()), item.created_at, experiment),
            )
        )
    return found


def _metrics(
    store: Store, experiment: Experiment, run_ids: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """When each run reported the metric of the search, in seconds, and what; by time."""
    search = experiment.search
    keys: list[SeriesKey] = [
        summary.key
        for summary in store.metrics.summaries(run_ids)
        if summary.key.name == search.metric and search.metric_group in (None, summary.key.group)
    ]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for key, points in store.metrics.points(keys).items():
        found[key.run_id] += _finite(points)
    return {run_id: sorted(reports) for run_id, reports in found.items()}


def _finite(points: Points) -> list[tuple[float, float]]:
    return [(at, value) for at, value in zip(points.times, points.values, strict=True) if isfinite(value)]


def _metric_at(
    reports: Sequence[tuple[float, float]], made_at: float, experiment: Experiment
) -> float | None:
    """What had been reported last when a checkpoint was made; the less, the better."""
    place = bisect_right(reports, made_at, key=lambda report: report[0])
    if place == 0:
        return None
    value = reports[place - 1][1]
    return value if experiment.search.smaller_is_better else -value
