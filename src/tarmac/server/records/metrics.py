"""Makes the answers about metrics. Called by the route for them."""

from tarmac import api
from tarmac.control.metrics import ChosenSeries
from tarmac.control.state.metric_intake import value_text
from tarmac.model.metrics import NO_STEP, Points
from tarmac.node.files.masking import Mask


def series_record(found: ChosenSeries, mask: Mask) -> api.MetricSeries:
    """A series; `mask` hides secrets in names that the run chose."""
    summary, low, high = found.summary, found.summary.low, found.summary.high
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
        points=None if found.points is None else points_record(found.points),
    )


def points_record(points: Points) -> api.MetricPoints:
    """Points in columns."""
    return api.MetricPoints(
        steps=[None if step == NO_STEP else step for step in points.steps],
        times=points.times.tolist(),
        values=[value_text(value) for value in points.values],
    )
