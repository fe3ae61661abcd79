"""The host that is another machine: one SSH connection, opened at first use and reopened after a loss.

Made by kinds of engines. Calls without a connection fail at once until the next login is due: many sites lock
out users who log in too often.
"""

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.connection import Connection, NotConnected, login_command
from tarmac.engines.hosts.host import FILE_S, Host, Reached
from tarmac.engines.hosts.report_copies import FILES, ReportCopies
from tarmac.engines.hosts.ssh import Refused, Ssh, explained
from tarmac.engines.hosts.streams import open_stream
from tarmac.model.errors import Unavailable
from tarmac.node.wire.connection import Lost

FIRST_REST_S = 2.0
LONGEST_REST_S = 60.0
REFUSED_REST_S = 300.0
"""Delay before the next login: after a failure, at most, and after one that only a person can fix."""

STEADY_S = 60.0
"""A connection that ended sooner counts as a failure."""


class SshHost(Host):
    """The host behind an ssh, where runs are kept in `directory`; `copies` is a directory of this machine.

    `files` of attempts are copied there beside those that every attempt has. `user`, with the lowest uid of
    one: each new connection verifies its user at the far end, and makes the user's private directory.
    """

    def __init__(
        self,
        directory: Path,
        ssh: Ssh,
        *,
        python: str,
        copies: Path,
        files: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        user: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(Layout(directory), f"on {ssh.target}", seen=Layout(copies), variables=variables)
        self._ssh = ssh
        self._python = python
        self._user = user
        self._report_copies = ReportCopies(self.layout, self.seen, files=(*FILES, *files))
        self._lock = Lock()
        self._connection: Connection | None = None
        self._end: weakref.finalize[..., SshHost] | None = None
        self._failure: Unavailable | None = None
        self._rest_s = 0.0
        self._next_at = float("-inf")

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:
        return self._call(self._connected(), operation, timeout_s, arguments)

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:
        """Open a stream with an ssh of its own that shares the open session; the login sets variables."""
        self._connected()
        given = ["env", *(f"{name}={value}" for name, value in {**self._variables, **variables}.items())]
        try:
            return open_stream([*self._ssh.argv(), login_command([*given, *argv])], mark=mark)
        except Unavailable as error:
            raise self._named(error.message) from None

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        try:
            self._connected().upload("take_code", {"directory": str(directory), "digest": digest}, pieces)
        except Lost as error:
            raise self._named(str(error)) from None

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        if not attempt_ids:
            return
        connection = self._connected()

        def call(**arguments: Any) -> Any:
            return self._call(connection, "changes", FILE_S, arguments)

        self._report_copies.refresh(attempt_ids, call, connection)

    def examine(self) -> Reached:
        with self._lock:
            self._next_at = float("-inf")  # a user asks, who may have fixed it
        known, began_at = self._connection, time.monotonic()
        connection = self._connected()
        about = self._call(connection, "about", FILE_S, {})
        took_s, now = time.monotonic() - began_at, time.time()
        hops = self._ssh.settings().get("proxyjump", "none")
        text = (
            f"{self._ssh.target} answered after {took_s:.1f} s"
            f"{', over the connection there is' if connection is known else ''}"
            f"{f', by way of {hops}' if hops != 'none' else ''}: {about['name']}, Python {about['python']}"
        )
        return Reached(text=text, ahead_s=float(about["at"]) - now)

    def _call(
        self, connection: Connection, operation: str, timeout_s: float, arguments: Mapping[str, Any]
    ) -> Any:
        try:
            return connection.call(operation, arguments, timeout_s=timeout_s)
        except Lost as error:
            raise self._named(str(error)) from None

    def _named(self, reason: str) -> Unavailable:
        return Unavailable(f"{self._ssh.target}: {reason}")

    def _connected(self) -> Connection:
        """The connection, a new one if needed. Raises Unavailable."""
        with self._lock:
            known = self._connection
            if known is not None and known.lost_at is not None:
                self._connection = None
                if known.lost_at - known.began_at > STEADY_S:
                    self._rest_s = 0.0
                else:
                    lost = Unavailable(f"{self._ssh.target}: the connection was lost soon after it was made")
                    self._rest(lost, since=known.lost_at)
            if self._connection is None:
                if time.monotonic() < self._next_at and self._failure is not None and not self._opened():
                    raise self._failure
                self._connection = self._connect()
            return self._connection

    def _connect(self) -> Connection:
        try:
            connection = Connection(self._ssh.argv(), python=self._python)
        except NotConnected as failure:
            error = explained(self._ssh, failure, python=self._python)
            self._rest(error, since=time.monotonic())
            raise error from None
        if self._user is not None:
            self._verify(connection, *self._user)
        self._failure = None
        if self._end is not None:
            self._end.detach()
        self._end = weakref.finalize(self, connection.close)  # for the engine of a removed cluster
        return connection

    def _verify(self, connection: Connection, user: str, least_uid: int) -> None:
        given = {"home": str(self.layout.home), "name": user, "least_uid": least_uid}
        try:
            connection.call("own_home", given, timeout_s=FILE_S)
        except (Lost, OSError, ValueError) as problem:
            connection.close()
            lasts = isinstance(problem, ValueError)
            error = (Refused if lasts else Unavailable)(f"{self._ssh.target}: {problem}")
            self._rest(error, since=time.monotonic())
            raise error from None

    def _rest(self, failure: Unavailable, *, since: float) -> None:
        """Delay the next login."""
        self._failure = failure
        self._rest_s = min(LONGEST_REST_S, max(FIRST_REST_S, self._rest_s * 2))
        rest_s = REFUSED_REST_S if isinstance(failure, Refused) else self._rest_s
        self._next_at = since + rest_s

    def _opened(self) -> bool:
        """Whether a user has since opened a session that can be shared, so that no login is needed."""
        if not isinstance(self._failure, Refused):
            return False
        session = self._ssh.session()
        return session is not None and session.exists()
