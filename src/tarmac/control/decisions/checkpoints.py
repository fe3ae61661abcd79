"""Selects the checkpoints that an experiment's policy retains. Called by `server.storage.trial_checkpoints`.

Pure. After the others are removed the decision is the same, so an interrupted removal is simply repeated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tarmac.model.search import CheckpointPolicy


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
    by_rank: dict[int, list[TrialCheckpoint]] = defaultdict(list)
    by_trial: dict[tuple[int, int], list[TrialCheckpoint]] = defaultdict(list)
    for each in checkpoints:
        by_rank[each.rank].append(each)
        by_trial[each.rank, each.trial].append(each)
    kept: set[str] = set()
    for of_rank in by_rank.values():
        kept |= _best(of_rank, policy.experiment_best)
    for of_trial in by_trial.values():
        kept |= _best(of_trial, policy.trial_best)
        newest = sorted(of_trial, key=lambda each: (-each.made_at, each.id))
        kept |= {each.id for each in newest[: policy.trial_latest]}
    return kept


def _best(checkpoints: Iterable[TrialCheckpoint], count: int) -> set[str]:
    ordered = sorted(checkpoints, key=_rank)
    return {each.id for each in ordered[:count]}


def _rank(each: TrialCheckpoint) -> tuple[bool, float, float, str]:
    """Best first; among equals the newer first."""
    return (each.metric is None, each.metric or 0.0, -each.made_at, each.id)
