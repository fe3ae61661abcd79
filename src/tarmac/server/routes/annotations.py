"""`/runs/{ref}/annotations`, `/notes` and `/labels`: notes and labels of runs. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.model.annotation import Annotation
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import run_record
from tarmac.server.requests import LabelsBody, NoteBody
from tarmac.server.service import Service


def annotation_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about notes and labels."""
    annotations = service.annotations

    @router.get("/runs/{ref}/annotations", response_model=list[Annotation])
    def every(actor: CallingActor, ref: str) -> Response:
        """Return the notes of a run and the changes of its labels, oldest first."""
        return JsonAnswer(annotations.of(actor, ref))

    @router.post("/runs/{ref}/notes", response_model=list[Annotation])
    def note(actor: CallingActor, ref: str, body: NoteBody) -> Response:
        """Add a note; the answer is as for `/annotations`. An identical note within a minute is ignored."""
        return JsonAnswer(annotations.note(actor, ref, body.text))

    @router.patch("/runs/{ref}/labels", response_model=api.Run)
    def label(actor: CallingActor, ref: str, body: LabelsBody) -> Response:
        """Set labels of a run, and remove those set to null."""
        return JsonAnswer(run_record(annotations.label(actor, ref, body.labels)))
