"""The server itself: its version, its health and its numbers, and its stop. Joined by `server.app`."""

import time

from starlette.background import BackgroundTask
from starlette.responses import Response

import tarmac
from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.permissions import Action, check
from tarmac.server.exposition import CONTENT_TYPE, rendered
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.routing import Call, Handlers, serve
from tarmac.server.operation import failures, metrics
from tarmac.server.service import Service


class ServerHandlers(Handlers):
    """The routes about the server itself, and those at the usual paths for monitoring."""

    @serve(api.VERSION)
    async def version(self, _call: Call) -> Response:
        """Return the version of the server."""
        return JsonAnswer(_version(self.service))

    @serve(api.ANNOUNCE)
    def announce(self, call: Call[Query, api.AnnouncementBody]) -> api.Version:
        """Announce a text to everyone who uses the servers on this database, or clear the announcement.

        Every answer then has the header `tarmac-announcement`, percent-encoded.
        """
        check(call.actor, Action.MANAGE)
        body = call.body
        self.service.announcements.announce(body.text, user=call.actor.user, until_at=body.until_at)
        return _version(self.service)

    @serve(api.STOP_SERVER)
    async def stop(self, call: Call) -> Response:
        """Stop the server after this answer. Runs continue, and the next server finds them."""
        check(call.actor, Action.MANAGE)
        return JsonAnswer({}, status_code=202, background=BackgroundTask(self.service.stop))

    @serve(api.HEALTH)
    def health(self, _call: Call) -> Response:
        """Return whether the server works: 200, or 503 with the reasons."""
        reasons = failures(self.service)
        return JsonAnswer(
            api.Health(healthy=not reasons, reasons=reasons), status_code=503 if reasons else 200
        )

    @serve(api.SERVER_METRICS)
    def numbers(self, _call: Call) -> Response:
        """Return the numbers of the server, in the text format of Prometheus."""
        return Response(rendered(metrics(self.service)), media_type=CONTENT_TYPE)


def _version(service: Service) -> api.Version:
    return api.Version(
        version=tarmac.__version__,
        pid=service.pid,
        home=str(service.home.root),
        started_at=service.started_at,
        now=time.time(),
        announcement=service.announcements.current(),
    )
