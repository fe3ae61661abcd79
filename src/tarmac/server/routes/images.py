"""`/images`: container images on the nodes. Joined by `server.app`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tarmac import api
from tarmac.model.abilities import KeptImage
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.service import Service


def image_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about images."""
    images = service.images

    @router.get("/images", response_model=api.ImageList)
    def every(
        actor: CallingActor,
        *,
        cluster: Annotated[str | None, Query()] = None,
        node: Annotated[str | None, Query()] = None,
    ) -> Response:
        """Return the images on the nodes."""
        return JsonAnswer(images.all(actor, cluster=cluster, node=node))

    @router.delete("/images", response_model=list[KeptImage])
    def remove(
        actor: CallingActor,
        *,
        image: Annotated[str, Query()],
        cluster: Annotated[str | None, Query()] = None,
        node: Annotated[str | None, Query()] = None,
    ) -> Response:
        """Remove an image, by name or digest, from every node that has it; refused while a run uses it."""
        return JsonAnswer(images.remove(actor, image, cluster=cluster, node=node))
