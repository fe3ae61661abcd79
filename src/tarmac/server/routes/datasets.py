"""`/datasets`: data that runs read at /data/<id>. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac.artifacts.datasets import shown
from tarmac.model.dataset import Dataset
from tarmac.model.record import replace
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.requests import DatasetBody
from tarmac.server.service import Service


def dataset_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about datasets."""
    datasets = service.datasets

    @router.get("/datasets", response_model=list[Dataset])
    def every(actor: CallingActor) -> Response:
        """Return every dataset and its progress."""
        return JsonAnswer([_answer(dataset) for dataset in datasets.all(actor)])

    @router.post("/datasets", response_model=Dataset)
    def add(actor: CallingActor, body: DatasetBody) -> Response:
        """Add a dataset; remote data is downloaded once. A failed one is tried again."""
        return JsonAnswer(_answer(datasets.add(actor, body.id, body.source)))

    @router.delete("/datasets/{dataset_id}", response_model=Dataset)
    def remove(actor: CallingActor, dataset_id: str) -> Response:
        """Remove a dataset and its downloaded files; refused while a run reads it."""
        return JsonAnswer(_answer(datasets.remove(actor, dataset_id)))


def _answer(dataset: Dataset) -> Dataset:
    """A dataset, with credentials in its source hidden."""
    return replace(dataset, source=shown(dataset.source, dataset.source))
