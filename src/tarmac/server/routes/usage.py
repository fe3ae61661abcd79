"""`/usage`: slot-seconds of users, projects and pools; `/utilization`: current use of devices by runs.

Joined to the application by `server.app`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from tarmac import api
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import utilization_records
from tarmac.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageParameters:
    """The query of `/usage`."""

    since: Annotated[float | None, Query(allow_inf_nan=False, description="seconds since 1970")] = None
    until: Annotated[float | None, Query(allow_inf_nan=False, description="seconds since 1970")] = None


def usage_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about usage."""
    plane = service.plane

    @router.get("/usage", response_model=list[api.UsedSlots])
    def usage(actor: CallingActor, parameters: Annotated[UsageParameters, Depends()]) -> Response:
        """Return the usage in a range of time, by user, project, cluster and pool."""
        found = plane.usage.used_slots(actor, parameters.since, parameters.until)
        return JsonAnswer(found)

    @router.get("/utilization", response_model=list[api.RunUtilization])
    def utilization(actor: CallingActor) -> Response:
        """Return the current utilization of live runs, by run; runs of a few seconds are not measured."""
        return JsonAnswer(
            [
                api.RunUtilization(run=each.run, nodes=utilization_records(each.nodes))
                for each in plane.usage.utilization(actor)
            ]
        )
