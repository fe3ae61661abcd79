"""`/images`: container images on the nodes. Joined by `server.app`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tarmac import api
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.copying import copy_fields
from tarmac.server.service import Service
from tarmac.server.storage.image_service import ClusterImage


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
        found = images.all(actor, cluster=cluster, node=node)
        return JsonAnswer({"images": _records(found.images), "troubles": dict(found.troubles)})

    @router.delete("/images", response_model=list[api.KeptImage])
    def remove(
        actor: CallingActor,
        *,
        image: Annotated[str, Query()],
        cluster: Annotated[str | None, Query()] = None,
        node: Annotated[str | None, Query()] = None,
    ) -> Response:
        """Remove an image, by name or digest, from every node that has it; refused while a run uses it."""
        return JsonAnswer(_records(images.remove(actor, image, cluster=cluster, node=node)))


def _records(found: Sequence[ClusterImage]) -> list[api.KeptImage]:
    return [copy_fields(api.KeptImage, each.image, cluster=each.cluster) for each in found]
