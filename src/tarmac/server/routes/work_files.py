"""`/runs/{ref}/files` and `/file`: the working directories of a run. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from tarmac import api
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.requests import Whole
from tarmac.server.service import Service
from tarmac.server.storage.work_files import WorkFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The query of both routes: a path below the working directory, an attempt and a node."""

    path: str = ""
    attempt: Whole | None = None
    node: str | None = None


def work_file_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about working directories."""
    work = WorkFiles(service.plane)

    @router.get("/runs/{ref}/files", response_model=api.WorkFiles)
    def files(actor: CallingActor, ref: str, place: Annotated[Place, Depends()]) -> Response:
        """Return a directory of an attempt's working directory; by default the newest, on its first node."""
        return JsonAnswer(work.listing(actor, ref, place.path, attempt=place.attempt, node=place.node))

    @router.get("/runs/{ref}/file", response_class=Response)
    def file(
        actor: CallingActor,
        ref: str,
        place: Annotated[Place, Depends()],
        offset: Whole = 0,
    ) -> Response:
        """Return the next bytes of a file, at most 1 MiB; none at its end."""
        piece = work.piece(actor, ref, place.path, offset=offset, attempt=place.attempt, node=place.node)
        return Response(piece, media_type="application/octet-stream")
