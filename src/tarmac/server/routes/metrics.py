"""`/metrics` of the API: reported metrics, compared across runs. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from tarmac import api
from tarmac.control.metrics import MOST_POINTS, MetricChoice
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.metrics import series_record
from tarmac.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricParameters:
    """The query of `/metrics`, except runs and names."""

    group: str | None = None
    points: Annotated[
        int | None, Query(ge=2, le=MOST_POINTS, description="at most so many points of each curve")
    ] = None
    every_rank: Annotated[bool, Query(description="not only the lowest rank that reported")] = False


def metric_routes(router: APIRouter, service: Service) -> None:
    """Add the route about metrics."""
    plane = service.plane

    @router.get("/metrics", response_model=list[api.MetricSeries])
    def metrics(
        actor: CallingActor,
        run: Annotated[list[str], Query(description="ids or names; may be given again")],
        parameters: Annotated[MetricParameters, Depends()],
        name: Annotated[list[str] | None, Query(description="these metrics alone")] = None,
    ) -> Response:
        """Return the metrics of these runs, in their order: a summary of each, and points if requested."""
        choice = MetricChoice(
            names=tuple(name or ()),
            group=parameters.group,
            points=parameters.points,
            every_rank=parameters.every_rank,
        )
        found = plane.metrics(actor, run, choice)
        runs = {each.run.id: each.run for each in found}
        masks = {run_id: service.secrets.mask(of) for run_id, of in runs.items()}
        return JsonAnswer([series_record(each, masks[each.run.id]) for each in found])
