"""`SlurmOfUsers`: the engine of a cluster whose runs may be those of system users. Made by `SlurmKind`.

Each system user has a `SlurmEngine` with a connection, commands and a directory of that user's own, opened at
first use. The user decides what the far end of such a connection answers: an answer in a wrong form counts as
none. `OfUsers` is the same for users of any kind.
"""

import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts import ssh
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.system_user import check_system_user
from tarmac.engines.slurm import files
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.model.abilities import FileEntry, StoreFiles
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import WorkerStatus
from tarmac.node.attempt import clearing
from tarmac.node.attempt.document import Launch
from tarmac.node.kernel import system_users

T = TypeVar("T")
P = ParamSpec("P")

REMEMBERED = 8192


class OfUsers(SlurmEngine):
    """Itself the engine of runs without a user of their own. The supplies name the user of each other run.

    Workers, notices and reports of all users are looked up in the copies of reports here. An inheriting class
    calls `_begin` once.
    """

    def _begin(self, cluster: str, supplies: Supplies) -> None:
        self._cluster = cluster
        self._supplies = supplies
        self._copies_here = Layout(supplies.copies / cluster)
        self._runs_as = lru_cache(REMEMBERED)(supplies.runs_as)
        self._opening = Lock()
        self._opened: dict[str, SlurmEngine] = {}

    @abstractmethod
    def _open(self, user: str) -> SlurmEngine:
        """The engine of a user, which is beside this one. Raises Unavailable."""

    def _is_own(self, user: str) -> bool:  # noqa: ARG002 - see `SlurmOfUsers`
        """Whether this engine itself runs the runs of a user."""
        return False

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> SlurmRequest:
        user = launch.runs_as.name if launch.runs_as is not None else self._user_of(launch.attempt_id)
        return self._call(user, SlurmEngine.render, launch._replace(runs_as=None))

    def submit(self, request: SlurmRequest) -> None:
        """Raises InvalidInput, which ends the run, if its user has no right to work there."""
        user = self._user_of(request.attempt_id)
        try:
            self._call(user, SlurmEngine.submit, request)
        except ssh.Refused as error:
            if user is None:
                raise
            message = f"it cannot run as the system user {user}: {error.message}"
            raise InvalidInput(message, hint=error.hint) from None

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """A refused login leaves the state of that user's attempts unknown, and concerns no others."""
        found: dict[str, Observation] = {}
        failures: list[Unavailable] = []
        refused = False
        parts: dict[str | None, list[str]] = defaultdict(list)
        for attempt_id in attempt_ids:
            parts[self._user_of(attempt_id)].append(attempt_id)
        for user, ids in parts.items():
            try:
                found.update(self._call(user, SlurmEngine.observe, ids))
            except Unavailable as error:
                failures.append(error)
                refused |= user is not None and isinstance(error, ssh.Refused)
                unknown = Observation(state=ObservedState.UNKNOWN, native_state=error.message)
                found.update(dict.fromkeys(ids, unknown))
        if failures and len(failures) == len(parts) and not refused:
            raise failures[0]
        return found

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        self._call(self._user_of(attempt_id), SlurmEngine.request_leave, attempt_id, request)

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        part = {"offset": offset, "limit": limit}
        return self._call(self._user_of(attempt_id), SlurmEngine.read, attempt_id, path, **part)

    # --- optional abilities ----------------------------------------------------------------------

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        return self._call(self._user_of(attempt_id), SlurmEngine.files, attempt_id, path, limit=limit)

    def reap(self, attempt_id: str) -> None:
        self._call(self._user_of(attempt_id), SlurmEngine.reap, attempt_id)

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        return self._call(self._user_of(attempt_id), SlurmEngine.open_session, attempt_id, worker)

    def remains(self) -> Collection[str]:
        """For users by the copies here: no login is needed to know them."""
        return {*super().remains(), *clearing.remains(str(self._copies_here.runs))}

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        days = {"work_days": work_days, "log_days": log_days}
        return self._call(self._runs_as(run_id), SlurmEngine.clear, run_id, **days)

    def remove(self, run_id: str) -> None:
        self._call(self._runs_as(run_id), SlurmEngine.remove, run_id)

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        users = (None, *self._opened)
        clear = SlurmEngine.clear_copies
        return sum(self._call(user, clear, live, unused_days=unused_days) for user in users)

    def artifact_files(self, system_user: str | None = None) -> StoreFiles | None:
        return self._call(system_user, SlurmEngine.artifact_files)

    # --- inside ----------------------------------------------------------------------------------

    def _user_of(self, attempt_id: str) -> str | None:
        return self._runs_as(attempt_id.rpartition(".")[0])

    def _call(
        self,
        user: str | None,
        method: Callable[Concatenate[SlurmEngine, P], T],
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call the engine of a user. Raises Unavailable if the far end answers in a wrong form."""
        engine = self._engine(user)
        try:
            verb: Callable[P, T] = getattr(super() if engine is self else engine, method.__name__)
            return verb(*given, **named)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if engine is self:
                raise
            raise Unavailable(f"the far end of {user} answers in a wrong form: {error}") from None

    def _engine(self, user: str | None) -> SlurmEngine:
        """The engine of a user, opened at its first use. Raises Unavailable."""
        if user is None or self._is_own(user):
            return self
        with self._opening:
            if user not in self._opened:
                self._opened[user] = self._open(user)
                self._opened[user].subscribe(self._tell)
            return self._opened[user]


class SlurmOfUsers(OfUsers):
    """Itself the engine of the server's account; each system user has another."""

    def __init__(self, cluster: str, settings: SlurmSettings, supplies: Supplies, **given: Any) -> None:
        super().__init__(cluster, settings, supplies, **given)
        self._begin(cluster, supplies)
        self._least_uid = supplies.attempts.least_uid or system_users.LEAST_UID

    def check_system_user(self, name: str) -> None:
        if self._settings.ssh is None:
            check_system_user(name, self._least_uid)

    def _is_own(self, user: str) -> bool:
        return self._settings.ssh is None and system_users.is_own(user)

    def _open(self, user: str) -> SlurmEngine:
        settings = self._settings
        login: ssh.Ssh = ssh.Become(f"{user}@{os.uname().nodename}", user=user, least_uid=self._least_uid)
        if settings.ssh is not None:
            login = ssh.Ssh(f"{user}@{settings.ssh.rpartition('@')[2]}")
        directory = Path(settings.user_directory.replace("{user}", user), self._cluster)
        supplies = self._supplies.stored_in(directory)  # the server's store is closed to the user
        host = SshHost(
            directory,
            login,
            python=settings.python,
            copies=self._copies_here.home,
            files=files.COPIED,
            user=(user, self._least_uid),
        )
        host.seen.staging = host.seen.home / f"staging-{user}"
        settings = replace(settings, directory=directory)
        return SlurmEngine(self._cluster, settings, supplies, host=host, beside=self)
