"""The method of `tarmac.Client` about metrics: what runs reported, compared across runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.client.calls import Calls

if TYPE_CHECKING:
    from tarmac import api


class MetricCalls(Calls):
    """What runs reported. Inherited by `Client`."""

    def metrics(
        self,
        *references: str,
        names: Sequence[str] = (),
        group: str | None = None,
        points: int | None = None,
        every_rank: bool = False,
    ) -> list[api.MetricSeries]:
        """What runs reported, in short: of each metric the last value, the lowest and the highest.

        With `points` also at most so many points of each, which draw the same curve. `names` and `group`
        choose among them; `every_rank` adds those of other ranks than the lowest that reported. Raises
        NotFound for a name that none has reported.
        """
        return self._get(
            "/metrics",
            run=list(references),
            name=list(names) or None,
            group=group,
            points=points,
            every_rank="true" if every_rank else None,
        )
