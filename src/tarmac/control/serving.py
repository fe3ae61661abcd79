"""Decides which home serves a cluster, and ends a replaced server's work. Called by `server/wiring.py`.

One home serves a cluster of a database. If its server fails (killed, stopped, cut off), its runs wait for it:
only a person can know that it will never be back, and give the cluster to another home.
"""

import logging
import threading
import time
from collections.abc import Sequence

from msgspec import Struct

from tarmac.control.state.control_state import ControlState
from tarmac.model.abilities import Attachable
from tarmac.model.actor import HomeIdentity, Lease, ServerRecord
from tarmac.model.errors import Refused, TarmacError, Unavailable
from tarmac.model.ports import Store

log = logging.getLogger(__name__)

TRIES = 5
"""The number of tries if another server takes the cluster at the same moment."""

STEP_DOWN_S = 30.0
"""The time for the engines of a replaced server to end their runs."""

SILENT_AFTER_S = 60.0
"""The time without a sign of life after which a server is reported as away; signs come every 10 s."""


class Wish(Struct, frozen=True, kw_only=True):
    """A home's request to serve a cluster.

    `take_over`: a person states that the home and machine that served it before will not continue. `copied`:
    the original home of this copy still exists at its place.
    """

    cluster: str
    home: HomeIdentity
    take_over: bool = False
    copied: bool = False


def serve(store: Store, wish: Wish, *, now: float) -> Lease:
    """Take the cluster for a home, durably; raises Refused if another home serves it."""
    for _ in range(TRIES):
        servers = store.servers()
        record = _of(servers, wish.cluster)
        at_work = sum(
            attempt.home == record.home.id for attempt in store.live_attempts() if record is not None
        )
        reason = objection(wish, servers, at_work=at_work)
        if reason is not None:
            raise reason
        lease = store.take_lease(wish.cluster, wish.home, after=record.token if record else 0, now=now)
        if lease is not None:
            return lease
    raise Unavailable(f"other servers take the cluster {wish.cluster} at the same time", hint="try again")


def objection(wish: Wish, servers: Sequence[ServerRecord], *, at_work: int) -> Refused | None:
    """Why this home may not serve the cluster. `at_work`: attempts of the home that serves it now."""
    home, cluster = wish.home, wish.cluster
    other = next(
        (record for record in servers if record.home.id == home.id and record.cluster != cluster), None
    )
    if other is not None:
        return Refused(
            f"this home serves the cluster {other.cluster} of the database, and cannot serve {cluster} too",
            hint=f'set cluster = "{other.cluster}" under [server] in settings.toml, or use another home',
        )
    record = _of(servers, cluster)
    if record is None or wish.take_over:
        return None
    if record.home.id != home.id:
        return Refused(
            f"{record.home} serves the cluster {cluster} of this database: "
            "a second home would start its runs again",
            hint='give this server a cluster of its own: cluster = "NAME" under [server] in settings.toml. '
            f"Only where that home will never serve again: {_TAKE_OVER}",
        )
    if wish.copied:
        return Refused(
            f"{home.path} is a copy of the home {record.home.path}, which serves the cluster {cluster}",
            hint=f"serve from there; where the copy is to go on instead: {_TAKE_OVER}",
        )
    if record.home.machine != home.machine and at_work:
        return Refused(
            f"{at_work} attempts of this home were at work on {record.home.hostname}, and may be still: "
            f"{home.hostname} cannot see them",
            hint=f"serve it from there; where that machine is off for good: {_TAKE_OVER}",
        )
    return None


_TAKE_OVER = "tarmac server start --take-over"


def _of(servers: Sequence[ServerRecord], cluster: str) -> ServerRecord | None:
    return next((record for record in servers if record.cluster == cluster), None)


def whereabouts(store: Store, server: str, *, now: float) -> str:
    """A sentence for users of another server on the server that manages these runs."""
    record = _of(store.servers(), server)
    if record is None:
        return f"the server of cluster {server}"
    silent_s = now - record.seen_at
    if silent_s < SILENT_AFTER_S:
        return str(record.home)
    return f"{record.home}, whose server was last seen {int(silent_s // 60)} min ago: its runs wait for it"


def step_down(control: ControlState) -> None:
    """End the runs of this home's engines for a cluster that another home has taken over: they run there.

    Nothing is ended if a newer server of the same home continues them. An engine that does not answer is
    waited for no longer than `STEP_DOWN_S`, beside the others.
    """
    lease = control.serving
    if lease is None:
        return
    try:
        record = _of(control.store.servers(), lease.cluster)
    except TarmacError as error:
        log.error("what still runs here could not be ended: %s", error)
        return
    if record is None or record.home.id == lease.home:
        return
    log.error("%s serves the cluster %s now: what runs here for it is ended", record.home, lease.cluster)
    attempts = [attempt for attempt in control.known_attempts() if control.starts_here(attempt)]
    threads = [
        threading.Thread(
            target=_end_all, args=(engine.attachment, ids), name=f"tarmac-end-{engine.key}", daemon=True
        )
        for engine in control.engines
        if engine.attachment is not None
        and (ids := [attempt.id for attempt in attempts if control.engines.of(attempt) is engine])
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + STEP_DOWN_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _end_all(engine: Attachable, attempt_ids: Sequence[str]) -> None:
    for attempt_id in attempt_ids:
        try:
            engine.reap(attempt_id)
        except TarmacError as error:
            log.error("attempt %s could not be ended: %s", attempt_id, error)
