"""`/code/...`: receives code that the server cannot read itself; compares the code of two runs.

Joined by `server.app`. The client asks for the directory of a submission, then for the contents that are
missing on the server, then sends these in packs, then the tree. The digest in the last answer goes into the
submission.
"""

import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.artifacts.code.arrivals import Receiver
from tarmac.control.permissions import Action, check
from tarmac.model.codec import common
from tarmac.model.errors import InvalidInput, StorageFull, TarmacError, TooLarge
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.routing import Call, serve
from tarmac.server.service import Handlers
from tarmac.server.submitting.submissions import Draft, code_directory

LARGEST_TREE_BYTES = 64 << 20
PIECE_BYTES = 1 << 20


class CodeHandlers(Handlers):
    """The routes about code: its changes, and the upload of a client's directory in four requests."""

    @serve(api.CODE_CHANGES)
    def changes(self, call: Call[api.CodeChangesQuery]) -> list[api.CodeChange]:
        """Return the files that differ between the code of this run and of the run `after`.

        404 if the code of one of them is no longer stored.
        """
        runs = (call.reference, call.query.after)
        before, then = (self.plane.find_here(call.actor, each).code_digest for each in runs)
        return self.service.code.changes(before, then)

    @serve(api.CODE_NEEDED)
    def needed(self, call: Call[Query, api.SubmissionBody]) -> api.CodeNeeded:
        """Return the client's directory that a submission needs, and its exclusions."""
        check(call.actor, Action.SUBMIT)
        code = code_directory(
            Draft(caller=call.caller, body=call.body, rules=self.service.reading), self.plane
        )
        if code is None:
            return api.CodeNeeded(directory=None)
        limit_bytes = self.service.arrivals.limit_bytes if code.limit_bytes is None else code.limit_bytes
        shared = common(api.CodeDirectory, code, but=["limit_bytes"])
        return api.CodeNeeded(directory=api.CodeDirectory(**shared, limit_bytes=limit_bytes))

    @serve(api.MISSING_CONTENTS)
    def missing(self, call: Call[Query, api.ContentsBody]) -> api.MissingContents:
        """Return the contents that the client has to send."""
        check(call.actor, Action.SUBMIT)
        return api.MissingContents(missing=self.service.arrivals.missing(call.body.contents))

    @serve(api.SEND_PACK)
    async def packs(self, call: Call) -> Response:
        """Store contents. The answer follows when they are durable; a pack is stored whole or not at all.

        The body has the contents one after another. In front of each are its SHA-256 (32 bytes) and its
        length (8 bytes, big-endian). 422 if a content has another SHA-256.
        """
        check(call.actor, Action.SUBMIT)
        try:
            kept = await _take(call.request, self.service.arrivals.receive())
        except ClientDisconnect:
            return Response(status_code=400)  # the client has disconnected
        except OSError as error:
            raise StorageFull(f"the pack cannot be kept: {error.strerror}") from error
        return JsonAnswer(api.UploadedPack(kept=kept), status_code=201)

    @serve(api.SEND_TREE)
    async def trees(self, call: Call) -> Response:
        """Make a snapshot of a tree whose contents are all on the server. 409 if contents are missing.

        The body is a directory, `{"path", "entries", "limit_bytes"}`, or an archive that was sent as a
        content, `{"path", "archive": SHA-256, "exclude", "limit_bytes"}`. An entry is `["d", mode, path]`,
        `["f", mode, path, SHA-256, mtime_ns]` or `["l", target, path]`.
        """
        check(call.actor, Action.SUBMIT)
        body = bytearray()
        async for piece in call.request.stream():
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
        digest = await run_in_threadpool(self.service.arrivals.commit, sent)
        return JsonAnswer(api.UploadedTree(digest=digest), status_code=201)


async def _take(request: Request, receiver: Receiver) -> int:
    """Copy a request into a pack. A refused request is read to its end, so that the client gets the error."""
    refused: TarmacError | None = None
    body = bytearray()
    with receiver:
        async for piece in request.stream():
            if refused is None:
                body += piece
            if len(body) >= PIECE_BYTES:
                try:
                    await run_in_threadpool(receiver.feed, bytes(body))
                except TarmacError as error:
                    refused = error
                body.clear()
        if refused is not None:
            raise refused
        await run_in_threadpool(receiver.feed, bytes(body))
        return await run_in_threadpool(receiver.finish)
