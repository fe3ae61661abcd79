"""The method of `tarmac.Client` about metrics: reported values, across runs. Inherited by `client.Client`."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac import api
from tarmac.client.calls import Calls


class MetricCalls(Calls):
    """The metrics of runs. Inherited by `Client`."""

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
        return self._get_as(
            list[api.MetricSeries],
            "/metrics",
            run=list(references),
            name=list(names) or None,
            group=group,
            points=points,
            every_rank="true" if every_rank else None,
        )
