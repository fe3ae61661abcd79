"""`/runs/{ref}/sessions`: a command, or a connection to a port, beside a worker. Joined by `server.app`."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tarmac import api
from tarmac.control.sessions import Session
from tarmac.model.actor import Actor
from tarmac.model.codec import ready
from tarmac.model.errors import NotFound
from tarmac.node.session import frames
from tarmac.node.wire.frames import Splitter, pack_document
from tarmac.server.accounts.auditing import UNCHANGED
from tarmac.server.http.routing import Call, checked, serve
from tarmac.server.service import Handlers, Service
from tarmac.server.sessions import FarSide, SessionAnswer, opening_frame

LONGEST_COMMAND = 1000
"""Maximum characters of a command in the history."""

MOST_FORWARDS = 1000


class SessionHandlers(Handlers):
    """The routes of sessions."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._forwards = _Forwards()
        self._keyed: WeakValueDictionary[tuple[str, str], FarSide] = WeakValueDictionary()

    @serve(api.OPEN_SESSION)
    async def sessions(self, call: Call) -> Response:
        """Open a session beside a worker, for the owner of the run and admins.

        The body of the request (chunked) and the answer are streams of frames: one byte of kind, four bytes
        of length, the content. `src/tarmac/node/session/frames.py` lists the kinds. The first frame is `o`
        with `SessionBody`. An answer that ends without the frame `E` is incomplete. 409 if the run has no
        such worker now.
        """
        actor, splitter = call.actor, Splitter()
        body: AsyncIterator[bytes] = call.request.stream()
        opening = await opening_frame(body, splitter)
        form = checked("", lambda: msgspec.json.decode(opening.content, type=ready(api.SessionBody)))
        run = await run_in_threadpool(self.plane.find_here, actor, call.reference)
        session = await run_in_threadpool(self.plane.open_session, actor, run.id, form)
        far = FarSide(session.channel)
        try:
            detail = _detail(form, session, self.service.secrets.mask(run).text)
            if form.port is None or self._forwards.is_new(actor, run.id, session, form.port):
                await run_in_threadpool(self.plane.record_session, actor, run.id, detail)
            begun = await far.begin(_opening(form, session))
            if form.key is not None:
                self._keyed[actor.user, form.key] = far
                body = _and_silence(body, call.request)
        except BaseException:
            far.close()
            raise
        return SessionAnswer(
            far,
            body,
            early=splitter.left(),
            begun=begun,
            changes=self.service.changes,
            run_id=run.id,
            node=session.worker.node,
            attached=self.plane.control.attached,
        )

    @serve(api.WRITE_SESSION)
    async def write(self, call: Call) -> Response:
        """Send frames to a session that the same user has opened with this key. 404 after its end."""
        far = self._keyed.get((call.actor.user, call.reference))
        frames_sent = await call.request.body()
        call.request.scope[UNCHANGED] = True  # the audit log has the start of the session
        try:
            if far is not None:
                await far.send(frames_sent)
                return Response(media_type=api.SESSION)
        except OSError:
            pass
        raise NotFound("this session has ended")


async def _and_silence(body: AsyncIterator[bytes], request: Request) -> AsyncIterator[bytes]:
    """The body of a request, and then nothing until its client has gone."""
    async for piece in body:
        yield piece
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _opening(form: api.SessionBody, session: Session) -> bytes:
    """The frame OPEN in the form for the far end."""
    if form.port is not None:
        addresses = list(dict.fromkeys(("127.0.0.1", session.address, "::1")))
        return pack_document(frames.OPEN, kind="connection", addresses=addresses, port=form.port)
    terminal = msgspec.structs.asdict(form.terminal) if form.terminal is not None else None
    return pack_document(frames.OPEN, kind="command", argv=form.command, stdin=form.stdin, terminal=terminal)


def _detail(form: api.SessionBody, session: Session, masked: Any) -> dict[str, Any]:
    """The record of the session in the history."""
    worker = session.worker
    detail = {"worker": f"{worker.role}.{worker.replica}.{worker.index}", "node": worker.node}
    if form.port is not None:
        return {**detail, "port": form.port}
    return {**detail, "command": [masked(word)[:LONGEST_COMMAND] for word in form.command[:LONGEST_COMMAND]]}


class _Forwards:
    """The forwards that are in the history: each has many connections, and is recorded once."""

    def __init__(self) -> None:
        self._recorded: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def is_new(self, actor: Actor, run_id: str, session: Session, port: int) -> bool:
        """Whether this is the first connection of its kind, as far as the server remembers."""
        worker = session.worker
        key = (actor.user, run_id, worker.role, worker.replica, worker.index, worker.pid, port)
        new = key not in self._recorded
        self._recorded[key] = None
        self._recorded.move_to_end(key)
        while len(self._recorded) > MOST_FORWARDS:
            self._recorded.popitem(last=False)
        return new
