"""The methods about experiments, and about metrics across runs. Inherited by `client.Client`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from tarmac import api
from tarmac.api.operation import RunScope
from tarmac.client.calls import Calls


class ListFilters(TypedDict, total=False):
    """The entries of a list, and the part of it."""

    states: Sequence[str]
    user: str | None
    mine: bool  # only the user's own
    project: str | None
    before: str | None  # the `next` of the last page
    limit: int


def listing(*, states: Sequence[str] = (), mine: bool = False, **filters: Any) -> dict[str, Any]:
    """The query for a page of a list."""
    return {"state": list(states), "scope": RunScope.MINE if mine else RunScope.ALL, **filters}


class ExperimentCalls(Calls):
    """One method per route. Inherited by `Client`."""

    def experiments(
        self, *, archived: bool | None = None, **filters: Unpack[ListFilters]
    ) -> api.ExperimentPage:
        """A page of the list of experiments, newest first; `before` is the `next` of the last page."""
        query = api.ExperimentsQuery(archived=archived, **listing(**filters))
        return self._call(api.EXPERIMENTS, query=query)

    def experiment(self, reference: str) -> api.Experiment:
        """An experiment, by id, unique prefix of an id, or name (the newest of that name)."""
        return self._call(api.EXPERIMENT, reference)

    def trials(self, reference: str) -> list[api.Trial]:
        """All trials of an experiment, by number."""
        return self._call(api.TRIALS, reference)

    def best_trials(self, reference: str, *, limit: int = 1) -> list[api.Trial]:
        """The trials with the best metric, best first."""
        return self._call(api.BEST_TRIALS, reference, query=api.BestQuery(limit=limit))

    def numbers(self, run_ids: Sequence[str]) -> dict[str, api.Numbers]:
        """The numbers of these runs in their system's own command, for runs that have some."""
        return self._call(api.NUMBERS, query=api.NumbersQuery(run=list(run_ids))) if run_ids else {}

    def numbered_experiment(self, number: int) -> str:
        """The id of the experiment, or of the single run, with this number; raises NotFound."""
        return self._call(api.NUMBERED_EXPERIMENT, str(number)).id

    def pause_experiment(self, reference: str) -> api.Experiment:
        """Pause every active trial, and begin no new ones."""
        return self._call(api.PAUSE_EXPERIMENT, reference)

    def activate_experiment(self, reference: str) -> api.Experiment:
        """Resume the trials of a paused experiment."""
        return self._call(api.ACTIVATE_EXPERIMENT, reference)

    def stop_experiment(self, reference: str, *, now: bool = False) -> api.Experiment:
        """End an experiment and its trials for good (`now`: without their grace)."""
        return self._call(api.STOP_EXPERIMENT, reference, query=api.StopQuery(now=now))

    def continue_experiment(self, reference: str) -> api.Experiment:
        """Continue an ended experiment: failed and stopped trials run again."""
        return self._call(api.CONTINUE_EXPERIMENT, reference)

    def archive_experiment(self, reference: str, archived: bool = True) -> api.Experiment:
        """Hide an ended experiment from plain lists, or show it again."""
        return self._call(api.ARCHIVE_EXPERIMENT, reference, query=api.ArchiveQuery(archived=archived))

    def remove_experiment(self, reference: str) -> api.Experiment:
        """Remove an ended experiment, with its trials' runs, files and artifacts."""
        return self._call(api.REMOVE_EXPERIMENT, reference)

    def metrics(
        self,
        *references: str,
        names: Sequence[str] = (),
        group: str | None = None,
        points: int | None = None,
        every_rank: bool = False,
    ) -> list[api.MetricSeries]:
        """The metrics of runs: for each the last value, the lowest and the highest.

        With `points`, each has at most that number of points, which draw the same curve. `names` and `group`
        select metrics; `every_rank` adds ranks other than the lowest that reported. Raises NotFound for a
        name that no run has reported.
        """
        query = api.MetricsQuery(
            run=list(references), names=list(names), group=group, points=points, every_rank=every_rank
        )
        return self._call(api.METRICS, query=query)
