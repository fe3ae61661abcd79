"""`/secrets`: values that runs are given by name. Joined by `server.app`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import caller_of
from tarmac.server.records.kept import secret_record
from tarmac.server.schemas.secrets import Rotation, Secret, SecretBody
from tarmac.server.service import Service
from tarmac.vault.vault import NewSecret


def secret_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about secrets."""
    secrets = service.secrets

    @router.get("/secrets", response_model=list[Secret])
    def every() -> Response:
        """Every secret, without its value."""
        return JsonAnswer([secret_record(secret) for secret in secrets.vault.all()])

    @router.put("/secrets/{name}", response_model=Secret)
    def put(name: str, body: SecretBody, request: Request) -> Response:
        """Keep a value, in place of an earlier one; runs get it from their next attempt on."""
        new = NewSecret(name=name, value=body.value, form=body.form, variable=body.variable, path=body.path)
        return JsonAnswer(secret_record(secrets.set(new, user=caller_of(request).actor.user)))

    @router.delete("/secrets/{name}", response_model=Secret | None)
    def remove(
        name: str, *, force: Annotated[bool, Query()] = False, purge: Annotated[bool, Query()] = False
    ) -> Response:
        """Give a secret to no run any more; refused while one is to be given it, unless forced."""
        gone = secrets.remove(name, force=force, purge=purge)
        return JsonAnswer(secret_record(gone) if gone is not None else None)

    @router.post("/secrets/rotate", response_model=Rotation)
    def rotate() -> Response:
        """Seal every value with a new key, and forget the old ones."""
        return JsonAnswer({"values": secrets.vault.rotate()})
