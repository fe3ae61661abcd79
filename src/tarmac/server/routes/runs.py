"""`/runs` and `/runs/{ref}`: the list, one run, and commands to it. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from tarmac import api
from tarmac.model.actor import RunScope
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunState
from tarmac.model.loss import loss_of
from tarmac.model.summary import RunQuery
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import (
    attempt_record,
    run_record,
    summary_record,
)
from tarmac.server.service import Service

PAGE_LIMIT = 10_000
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListParameters:
    """The query of `/runs`."""

    state: Annotated[list[RunState] | None, Query()] = None
    user: str | None = None
    scope: Annotated[RunScope, Query(description="mine: the caller's own runs alone")] = RunScope.ALL
    project: str | None = None
    name: str | None = None
    array: Annotated[str | None, Query(description="the id of an array: its members alone")] = None
    label: Annotated[list[str] | None, Query(description="KEY=VALUE")] = None
    before: str | None = None
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = 100
    everything: Annotated[bool, Query(alias="all", description="also runs that ended long ago")] = False


def run_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about runs."""
    plane = service.plane

    @router.get("/runs", response_model=api.RunPage)
    def runs(actor: CallingActor, parameters: Annotated[ListParameters, Depends()]) -> Response:
        """Return a page of the list of runs, newest first."""
        query = _run_query(parameters, recent=service.clock.now() - service.ended_days * _DAY_S)
        found = plane.runs(actor, query, scope=parameters.scope)
        following = found[-1].id if len(found) == query.limit else None
        return JsonAnswer({"runs": [summary_record(run) for run in found], "next": following})

    @router.get("/runs/{ref}", response_model=api.Run)
    def run(actor: CallingActor, ref: str) -> Response:
        """Return a run, by id, unique beginning of an id, or name (the newest of that name)."""
        return JsonAnswer(run_record(plane.find(actor, ref)))

    @router.delete("/runs/{ref}", response_model=api.Run)
    def remove(actor: CallingActor, ref: str) -> Response:
        """Remove an ended run, with its files and artifacts, and return its record."""
        return JsonAnswer(run_record(service.remover.remove(actor, ref)))

    @router.post("/runs/{ref}/stop", response_model=api.Run)
    def stop(actor: CallingActor, ref: str, now: bool = False) -> Response:
        """End a run for good, with `now` without its grace period."""
        return JsonAnswer(run_record(plane.stop(actor, ref, at_once=now)))

    @router.post("/runs/{ref}/pause", response_model=api.Run)
    def pause(actor: CallingActor, ref: str) -> Response:
        """Ask a run to leave its slots until a user resumes it."""
        return JsonAnswer(run_record(plane.pause(actor, ref)))

    @router.post("/runs/{ref}/resume", response_model=api.Run)
    def resume(actor: CallingActor, ref: str) -> Response:
        """Return a paused run to the queue."""
        return JsonAnswer(run_record(plane.resume(actor, ref)))

    @router.get("/runs/{ref}/attempts", response_model=list[api.Attempt])
    def attempts(actor: CallingActor, ref: str) -> Response:
        """Return the attempts of a run, with their workers and notices."""
        found = plane.attempts(actor, plane.find(actor, ref).id)
        return JsonAnswer(
            [
                attempt_record(
                    attempt,
                    plane.workers(actor, attempt.id),
                    plane.notices(actor, attempt.id),
                    plane.usage.attempt_utilization(actor, attempt.id) if attempt.ended_at is None else (),
                    directory=service.attempt_directory(attempt),
                    lost=loss_of(found[:number], found[number] if number < len(found) else None),
                )
                for number, attempt in enumerate(found, start=1)
            ]
        )

    @router.get("/runs/{ref}/why", response_model=api.Why)
    def why(actor: CallingActor, ref: str) -> Response:
        """Return the reasons why a run waits, and the events that would unblock it."""
        return JsonAnswer(plane.why(actor, ref))


def _run_query(parameters: ListParameters, *, recent: float) -> RunQuery:
    """The query to the store. A plain list omits runs that ended before `recent`."""
    plain = not (parameters.everything or parameters.state or parameters.name or parameters.array)
    return RunQuery(
        states=frozenset(parameters.state or ()),
        user=parameters.user,
        project=parameters.project,
        name=parameters.name,
        array_id=parameters.array,
        labels=_labels(parameters.label or []),
        ended_after=recent if plain else None,
        before_id=parameters.before,
        limit=parameters.limit,
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidInput(f"label: {pair!r} is not of the form KEY=VALUE")
        labels[key] = value
    return labels
