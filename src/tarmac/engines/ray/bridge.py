"""The `Membership` of a Ray: calls it through a process beside it, which has its Python.

Made by `kind`. This process never loads Ray, whose calls may wait for ever: a call that exceeds its deadline
ends the process of the bridge, and another one is tried after a pause.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.hosts.connection import EXEC_CODE, Connection, NotConnected, loading_program
from tarmac.engines.hosts.installing import version_of
from tarmac.engines.hosts.ssh import Ssh, explained
from tarmac.engines.ray.membership import Endpoint, Member
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.node.processes.lease import contact_path
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.node.wire.connection import Lost

FAR = Path(__file__).with_name("far")
PROGRAM = "tarmac.engines.ray.far.program"
AGENT = "tarmac.node.host.agent"

MARGIN_S = 1.0
CONNECT_S = 20.0
JOIN_S = 25.0
ANSWER_S = 5.0
AGENT_S = 60.0
RESERVE_S = 6.0
"""Time limits of Ray, in seconds: to connect, to answer, to start an agent, to reserve nodes."""

FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0
_TOKEN = re.compile("unauthenticated|invalidauthtoken|authentication|auth token", re.IGNORECASE)


class Bridge:
    """One Ray. `key` identifies our resources there; `token` is read at every new connection. Thread-safe.

    `ssh` is the way to a node of the Ray; None: this machine is one.
    """

    def __init__(
        self, settings: RaySettings, key: str, *, token: Callable[[], str | None], ssh: Ssh | None = None
    ) -> None:
        self._settings = settings
        self._key = key
        self._token = token
        self._ssh = ssh
        self._lock = Lock()
        self._connection: Connection | None = None
        self._about: Mapping[str, Any] = {}
        self._failure: Unavailable | None = None
        self._rest_s = 0.0
        self._next_at = float("-inf")
        self._closed = False
        self._program = loading_program("agent", begin=AGENT)
        self._version = version_of({"program": self._program})

    def members(self) -> Sequence[Member]:
        return [Member(**found) for found in self._call("members", ANSWER_S)]

    def agent(self, member: Member, *, home: str, instead_of: Endpoint | None) -> Endpoint:
        order = {
            "address": member.address,
            "home": home,
            "contact": contact_path(home, member.address),
            "token": os.urandom(32).hex(),
            "version": self._version,
        }
        found = self._call(
            "endpoint",
            AGENT_S,
            member_id=member.id,
            program=self._program,
            code=EXEC_CODE,
            order=order,
            instead_of=instead_of.port if instead_of is not None else None,
        )
        return Endpoint(**found)

    def reserve(self, member_ids: Collection[str]) -> None:
        used = self._call("reserve", RESERVE_S, member_ids=sorted(member_ids))
        if used:
            raise Unavailable(f"others use {', '.join(used)} through Ray")

    def release(self, member_ids: Collection[str]) -> None:
        self._call("release", ANSWER_S, member_ids=sorted(member_ids))

    def about(self) -> Mapping[str, Any]:
        with self._lock:
            self._next_at = float("-inf")  # a user asks, who may have fixed it
            self._connected()
            return self._about

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _call(self, operation: str, timeout_s: float, **arguments: Any) -> Any:
        with self._lock:
            connection = self._connected()
        try:
            return connection.call(operation, arguments, timeout_s=timeout_s)
        except Lost as error:
            self._drop(connection)
            raise self._named(str(error)) from None
        except (OSError, ValueError) as error:
            raise self._named(str(error)) from None

    def _drop(self, connection: Connection) -> None:
        """Drop a connection that did not answer in time: the next call opens another one."""
        connection.close()
        with self._lock:
            if self._connection is connection:
                self._connection = None

    def _connected(self) -> Connection:
        """The connection, a new one if needed; with the lock reserved. Raises Unavailable."""
        if self._closed:
            raise Unavailable("the engine is closed")
        known = self._connection
        if known is not None and known.lost_at is None:
            return known
        if time.monotonic() < self._next_at and self._failure is not None:
            raise self._failure
        try:
            self._connection = self._join()
        except TarmacError as error:
            failure = error if isinstance(error, Unavailable) else self._named(str(error))
            self._rest_s = min(LONGEST_REST_S, max(FIRST_REST_S, self._rest_s * 2))
            self._failure, self._next_at = failure, time.monotonic() + self._rest_s
            raise failure from None
        self._failure, self._rest_s = None, 0.0
        return self._connection

    def _join(self) -> Connection:
        settings = self._settings
        token = self._token()
        try:
            connection = Connection(
                ["bash", "-c"] if self._ssh is None else self._ssh.argv(),
                python=settings.python,
                connect_s=CONNECT_S,
                packages=(NODE_DIRECTORY, FAR),
                begin=PROGRAM,
                lean=False,
                margin_s=MARGIN_S,
            )
        except NotConnected as error:
            if self._ssh is not None:
                raise explained(self._ssh, error, python=settings.python) from None
            raise self._named(error.lines[-1] if error.lines else error.reason) from None
        arguments = {"address": settings.address, "token": token, "key": self._key}
        try:
            self._about = connection.call("join", arguments, timeout_s=JOIN_S)
        except (Lost, OSError, ValueError) as error:
            connection.close()
            text = " ".join([str(error), *connection.lines])
            if _TOKEN.search(text):
                words = "it takes another token" if token is not None else "it needs a token"
                hint = "name a file with it, token_file, or a secret: credentials: {token: NAME}"
                raise Unavailable(f"{settings.address}: {words}", hint=hint) from None
            raise self._named(_words(error)) from None
        return connection

    def _named(self, words: str) -> Unavailable:
        return Unavailable(f"Ray at {self._settings.address}: {words}")


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return "nothing answers there" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return str(error)
