"""`/experiments`: searches over parameters, and commands to them. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from tarmac import api
from tarmac.model.actor import RunScope
from tarmac.model.experiment import ExperimentQuery, ExperimentState
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.experiments import experiment_record, trial_record
from tarmac.server.requests import Count, ExperimentBody
from tarmac.server.routes.submitting import draft_of
from tarmac.server.service import Service
from tarmac.server.submitting.submissions import Prepared, planned, prepare

PAGE_LIMIT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentParameters:
    """The query of `/experiments`."""

    state: Annotated[list[ExperimentState] | None, Query()] = None
    user: str | None = None
    scope: Annotated[RunScope, Query(description="mine: the caller's own alone")] = RunScope.ALL
    project: str | None = None
    archived: bool | None = None
    before: str | None = None
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = 100


def experiment_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about experiments."""
    _creating(router, service)
    _questions(router, service)
    _commands(router, service)


def _creating(router: APIRouter, service: Service) -> None:
    plane = service.plane

    @router.post("/experiments", status_code=201, response_model=api.Experiment)
    def create(request: Request, body: ExperimentBody) -> Response:
        """Start a search: from a run file with one, from `sweep`, or with `fork` from another experiment."""
        draft = draft_of(request, body, service)
        parent = None
        if body.fork is not None:
            original = plane.experiments.find(draft.caller.actor, body.fork)
            draft, parent = replace(draft, base=original.spec), original.id
        prepared = prepare(draft, plane)
        created = plane.create_experiment(prepared.submission, parent=parent)
        return JsonAnswer(experiment_record(created, warnings=prepared.warnings), status_code=201)

    @router.post("/experiments/preview", response_model=list[api.PreviewLine])
    def preview(request: Request, body: ExperimentBody) -> Response:
        """Return the number and lengths of a search's trials; stores nothing."""
        prepared: Prepared = planned(draft_of(request, body, service), plane)
        return JsonAnswer(plane.experiments.preview(prepared.submission))


def _questions(router: APIRouter, service: Service) -> None:
    plane = service.plane

    @router.get("/experiments", response_model=api.ExperimentPage)
    def experiments(actor: CallingActor, parameters: Annotated[ExperimentParameters, Depends()]) -> Response:
        """Return a page of the list of experiments, newest first."""
        query = ExperimentQuery(
            states=frozenset(parameters.state or ()),
            user=actor.user if parameters.scope is RunScope.MINE else parameters.user,
            project=parameters.project,
            archived=parameters.archived,
            before_id=parameters.before,
            limit=parameters.limit,
        )
        found = plane.experiments.experiments(actor, query)
        following = found[-1].id if len(found) == query.limit else None
        return JsonAnswer(
            api.ExperimentPage(experiments=[experiment_record(each) for each in found], next=following)
        )

    @router.get("/experiments/{ref}", response_model=api.Experiment)
    def experiment(actor: CallingActor, ref: str) -> Response:
        """Return an experiment, by id, unique beginning of an id, or name (the newest of that name)."""
        return JsonAnswer(experiment_record(plane.experiments.find(actor, ref)))

    @router.get("/experiments/{ref}/trials", response_model=list[api.Trial])
    def trials(actor: CallingActor, ref: str) -> Response:
        """Return all trials of an experiment, by number."""
        rows = plane.experiments.trials(actor, plane.experiments.find(actor, ref))
        return JsonAnswer([trial_record(row) for row in rows])

    @router.get("/experiments/{ref}/best", response_model=list[api.Trial])
    def best(actor: CallingActor, ref: str, limit: Count = 1) -> Response:
        """Return the trials with the best metric, best first."""
        rows = plane.experiments.best(actor, plane.experiments.find(actor, ref), limit=limit)
        return JsonAnswer([trial_record(row) for row in rows])


def _commands(router: APIRouter, service: Service) -> None:
    plane = service.plane

    @router.delete("/experiments/{ref}", response_model=api.Experiment)
    def remove(actor: CallingActor, ref: str) -> Response:
        """Remove an ended experiment, with its trials' runs, files and artifacts."""
        found, trials = plane.experiments.remove(actor, ref)
        for trial in trials:
            service.remover.remove_if_there(actor, trial.run_id)
        return JsonAnswer(experiment_record(found))

    @router.post("/experiments/{ref}/pause", response_model=api.Experiment)
    def pause(actor: CallingActor, ref: str) -> Response:
        """Pause every active trial with its checkpoint, and start no further trials."""
        return JsonAnswer(experiment_record(plane.experiments.pause(actor, ref)))

    @router.post("/experiments/{ref}/activate", response_model=api.Experiment)
    def activate(actor: CallingActor, ref: str) -> Response:
        """Resume the trials of a paused experiment."""
        return JsonAnswer(experiment_record(plane.experiments.activate(actor, ref)))

    @router.post("/experiments/{ref}/stop", response_model=api.Experiment)
    def stop(actor: CallingActor, ref: str, now: bool = False) -> Response:
        """End an experiment and its trials for good (`now`: without their grace)."""
        return JsonAnswer(experiment_record(plane.experiments.stop(actor, ref, at_once=now)))

    @router.post("/experiments/{ref}/continue", response_model=api.Experiment)
    def go_on(actor: CallingActor, ref: str) -> Response:
        """Continue an ended experiment: trials that failed or were stopped run again."""
        return JsonAnswer(experiment_record(plane.experiments.go_on(actor, ref)))

    @router.post("/experiments/{ref}/archive", response_model=api.Experiment)
    def archive(actor: CallingActor, ref: str, archived: bool = True) -> Response:
        """Hide an ended experiment from plain lists, or (`archived=false`) show it again."""
        return JsonAnswer(experiment_record(plane.experiments.set_archived(actor, ref, archived)))
