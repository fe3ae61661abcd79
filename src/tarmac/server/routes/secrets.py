"""`/secrets`: values that runs get by name. Joined by `server.app`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tarmac import api
from tarmac.model.secret import SecretVersion
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.requests import SecretBody
from tarmac.server.service import Service
from tarmac.vault.vault import NewSecret


def secret_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about secrets."""
    secrets = service.secrets

    @router.get("/secrets", response_model=list[api.Secret])
    def every(actor: CallingActor) -> Response:
        """Return every secret, without its value."""
        return JsonAnswer([_shown(secret) for secret in secrets.all(actor)])

    @router.put("/secrets/{name}", response_model=api.Secret)
    def put(actor: CallingActor, name: str, body: SecretBody) -> Response:
        """Store a value, in place of an earlier one; runs get it from their next attempt on."""
        new = NewSecret(name=name, value=body.value, form=body.form, variable=body.variable, path=body.path)
        return JsonAnswer(_shown(secrets.set(actor, new)))

    @router.delete("/secrets/{name}", response_model=api.Secret | None)
    def remove(
        actor: CallingActor,
        name: str,
        *,
        force: Annotated[bool, Query()] = False,
        purge: Annotated[bool, Query()] = False,
    ) -> Response:
        """Remove a secret from all later attempts; refused while a run needs it, unless forced."""
        gone = secrets.remove(actor, name, force=force, purge=purge)
        return JsonAnswer(_shown(gone) if gone is not None else None)

    @router.post("/secrets/rotate", response_model=api.Rotation)
    def rotate(actor: CallingActor) -> Response:
        """Encrypt every value with a new key, and delete the old keys."""
        return JsonAnswer(api.Rotation(values=secrets.rotate(actor)))


def _shown(secret: SecretVersion) -> api.Secret:
    """A secret without its value."""
    return api.Secret(
        name=secret.name,
        number=secret.number,
        user=secret.user,
        created_at=secret.created_at,
        form=secret.form,
        variable=secret.variable,
        path=secret.path,
    )
