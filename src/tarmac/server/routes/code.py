"""`/code/...`: receives code that the server cannot read itself; compares the code of two runs.

Joined by `server.app`. The client asks for the directory of a submission, then for the contents that are
missing on the server, then sends these in packs, then the tree. The digest in the last answer goes into the
submission.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tarmac import api
from tarmac.artifacts.code.arrivals import Arrivals, Receiver
from tarmac.control.permissions import Action
from tarmac.model.errors import InvalidInput, StorageFull, TarmacError, TooLarge
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor, allowed
from tarmac.server.requests import ContentsBody, SubmissionBody
from tarmac.server.routes.submitting import draft_of
from tarmac.server.service import Service
from tarmac.server.submitting.submissions import code_directory

LARGEST_TREE_BYTES = 64 << 20
PIECE_BYTES = 1 << 20

_PACK = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_TREE = {"content": {"application/json": {"schema": {"type": "object"}}}}


def code_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about code: its changes, and the upload of a client's directory in four requests."""
    plane = service.plane
    arrivals = service.arrivals
    submitters = [allowed(Action.SUBMIT)]

    @router.get("/runs/{ref}/code-changes", response_model=list[api.CodeChange])
    def changes(actor: CallingActor, ref: str, after: str) -> Response:
        """Return the files that differ between the code of this run and of the run `after`."""
        before, then = (plane.find_here(actor, each).code_digest for each in (ref, after))
        found = service.code.changes(before, then)
        return JsonAnswer([api.CodeChange(path=item.path, change=item.change) for item in found])

    @router.post("/code/needed", dependencies=submitters, response_model=api.CodeNeeded)
    def needed(request: Request, body: SubmissionBody) -> Response:
        """Return the client's directory that a submission needs, and its exclusions."""
        code = code_directory(draft_of(request, body, service), plane)
        if code is None:
            return JsonAnswer(api.CodeNeeded(directory=None))
        limit_bytes = arrivals.limit_bytes if code.limit_bytes is None else code.limit_bytes
        directory = api.CodeDirectory(
            path=code.path,
            ignore_file=code.ignore_file,
            exclude=code.exclude,
            whole=code.whole,
            limit_bytes=limit_bytes,
        )
        return JsonAnswer(api.CodeNeeded(directory=directory))

    @router.post("/code/missing", dependencies=submitters, response_model=api.MissingContents)
    def missing(body: ContentsBody) -> Response:
        """Return the contents that the client has to send."""
        return JsonAnswer(api.MissingContents(missing=arrivals.missing(body.contents)))

    _receiving_routes(router, arrivals, submitters)


def _receiving_routes(router: APIRouter, arrivals: Arrivals, submitters: Sequence[Any]) -> None:
    """Add the routes that receive contents and the tree of a directory, as streams."""

    @router.post(
        "/code/packs",
        status_code=201,
        dependencies=submitters,
        response_model=api.UploadedPack,
        openapi_extra={"requestBody": _PACK},
    )
    async def packs(request: Request) -> Response:
        """Store contents. The answer follows when they are durable; a pack is stored whole or not at all."""
        try:
            return JsonAnswer(
                api.UploadedPack(kept=await _take(request, arrivals.receive())), status_code=201
            )
        except ClientDisconnect:
            return Response(status_code=400)  # the client has disconnected
        except OSError as error:
            raise StorageFull(f"the pack cannot be kept: {error.strerror}") from error

    @router.post(
        "/code/trees",
        status_code=201,
        dependencies=submitters,
        response_model=api.UploadedTree,
        openapi_extra={"requestBody": _TREE},
    )
    async def trees(request: Request) -> Response:
        """Make a snapshot of a tree whose contents are all on the server."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST_TREE_BYTES:
                raise TooLarge(
                    f"the list of files is larger than {LARGEST_TREE_BYTES >> 20} MiB",
                    hint="leave out what the run does not need",
                )
        try:
            sent = await run_in_threadpool(json.loads, body)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the tree is not JSON: {error}") from None
        digest = await run_in_threadpool(arrivals.commit, sent)
        return JsonAnswer(api.UploadedTree(digest=digest), status_code=201)


async def _take(request: Request, receiver: Receiver) -> int:
    """Copy a request into a pack. A refused request is read to its end, so that the client gets the error."""
    refused: TarmacError | None = None
    body = bytearray()
    with receiver:
        async for piece in request.stream():
            body += piece
            if refused is not None or len(body) < PIECE_BYTES:
                body = bytearray() if refused is not None else body
                continue
            try:
                await run_in_threadpool(receiver.feed, bytes(body))
            except TarmacError as error:
                refused = error
            body = bytearray()
        if refused is not None:
            raise refused
        await run_in_threadpool(receiver.feed, bytes(body))
        return await run_in_threadpool(receiver.finish)
