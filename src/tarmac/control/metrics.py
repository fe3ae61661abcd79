"""Compares the metrics of runs: selects the series and their number of points. Called by `service`."""

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api.experiment_operations import MOST_POINTS, MetricChoice
from tarmac.control.state.control_state import ControlState
from tarmac.model.errors import InvalidInput, NotFound, suggestion
from tarmac.model.metrics import MetricSummary, Points, between, thinned
from tarmac.model.run import Run

MOST_RUNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSeries:
    """A chosen series, with its points if they were requested, and the number from which they were chosen."""

    run: Run
    summary: MetricSummary
    points: Points | None = None
    total: int = 0


def chosen_series(control: ControlState, runs: Sequence[Run], choice: MetricChoice) -> list[ChosenSeries]:
    """The series of these runs, in their order, then by group and name.

    Raises NotFound for a name that none of them has reported, InvalidInput for an oversized request.
    """
    if len(runs) > MOST_RUNS:
        raise InvalidInput(f"metrics of {len(runs)} runs were asked for: {MOST_RUNS} at once are allowed")
    store = control.store.metrics
    summaries = store.summaries([run.id for run in runs])
    known = {summary.key.name for summary in summaries}
    for name in choice.names:
        if name not in known:
            hint = suggestion(name, known, f"reported are: {', '.join(sorted(known)) or 'none'}")
            raise NotFound(f"no metric {name!r} was reported here", hint=hint)
    found = [summary for summary in summaries if _fits(summary, choice)]
    if not choice.every_rank:
        lowest: dict[tuple[str, str, str], MetricSummary] = {}
        for summary in found:  # by rank
            lowest.setdefault((summary.key.run_id, summary.key.group, summary.key.name), summary)
        found = list(lowest.values())
    points = {}
    if choice.points is not None:
        if choice.points * len(found) > MOST_POINTS:
            raise InvalidInput(
                f"{choice.points} points of {len(found)} series were asked for: "
                f"{MOST_POINTS:,} in all are allowed",
                hint="ask for fewer points, or for some metrics by name",
            )
        points = store.points([summary.key for summary in found])
    by_run: dict[str, list[MetricSummary]] = {run.id: [] for run in runs}
    for summary in found:
        by_run[summary.key.run_id].append(summary)
    return [
        _with_points(run, summary, points.get(summary.key, Points()), choice)
        for run in {run.id: run for run in runs}.values()
        for summary in by_run[run.id]
    ]


def _fits(summary: MetricSummary, choice: MetricChoice) -> bool:
    named = not choice.names or summary.key.name in choice.names
    return named and choice.group in (None, summary.key.group)


def _with_points(run: Run, summary: MetricSummary, points: Points, choice: MetricChoice) -> ChosenSeries:
    """A series with the chosen of its points."""
    if choice.points is None:
        return ChosenSeries(run=run, summary=summary)
    points = between(points, points.steps, choice.first_step, choice.last_step)
    if choice.first_s is not None or choice.last_s is not None:
        start = run.started_at or run.created_at
        first, last = (None if each is None else start + each for each in (choice.first_s, choice.last_s))
        points = between(points, points.times, first, last)
    chosen = thinned(points, choice.points)
    return ChosenSeries(run=run, summary=summary, points=chosen, total=len(points))
