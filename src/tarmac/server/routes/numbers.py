"""`/numbers`: the numbers of runs in the command of Determined. Joined by `server.app`.

Only the gateway assigns numbers: without it there are none.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tarmac import api
from tarmac.model.errors import NotFound
from tarmac.model.numbering import NumberKind
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.requests import Whole
from tarmac.server.service import Service

MOST = 1_000


def number_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about numbers."""
    known_numbers, store = service.numbers, service.plane.control.store

    @router.get("/numbers", response_model=dict[str, api.Numbers])
    def numbers(_actor: CallingActor, run: Annotated[list[str], Query(max_length=MOST)]) -> Response:
        """Return the numbers of these runs, by id; runs without a number are omitted."""
        trials = known_numbers.known(NumberKind.TRIAL, run)
        places = {each.id: each.spec.trial for each in store.load_runs(list(trials)).values()}
        experiments = {
            run_id: place.experiment if place is not None else run_id for run_id, place in places.items()
        }
        known = known_numbers.known(NumberKind.EXPERIMENT, list(dict.fromkeys(experiments.values())))
        return JsonAnswer(
            {
                run_id: api.Numbers(experiment=known[experiment], trial=trials[run_id])
                for run_id, experiment in experiments.items()
                if experiment in known
            }
        )

    @router.get("/numbers/experiments/{number}", response_model=api.Numbered)
    def numbered(_actor: CallingActor, number: Whole) -> Response:
        """Return the experiment, or the standalone run, with this number."""
        found = known_numbers.numbered(NumberKind.EXPERIMENT, number)
        if found is None:
            raise NotFound(f"nothing has the number {number}")
        return JsonAnswer(api.Numbered(id=found))
