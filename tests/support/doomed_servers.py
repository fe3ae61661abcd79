"""A server that is killed while it starts a cluster: from some step on it does nothing, not even clear up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, cast

from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.services import Services
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.servers.ray_servers import RayServers
from tarmac.model.cluster import Machine

STEPS = {"write", "start_service", "run"}
"""What changes something on a machine."""


class Killed(BaseException):
    """The process is no more."""


class DoomedServers(RayServers):
    """Passes so many points, one before each step that changes a machine, and one after it; then it dies."""

    def __init__(self, tokens: Path, ssh: Callable[[str], Ssh], lives: int) -> None:
        super().__init__(tokens, ssh=ssh)
        self._lives = lives
        self._dead = False
        self._passing = Lock()

    def _host(self, machine: Machine) -> Host:
        return cast(Host, _DoomedHost(super()._host(machine), self._pass))

    def _pass(self, operation: str) -> None:
        with self._passing:
            if operation in STEPS and not self._dead:
                self._dead = self._lives == 0
                self._lives -= 1
            if self._dead:
                raise Killed


class _DoomedHost:
    def __init__(self, host: Host, passes: Callable[[str], None]) -> None:
        self._host = host
        self._passes = passes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def services(self) -> Services:
        def call(operation: str, **arguments: Any) -> Any:
            self._passes(operation)
            result = self._host._reach.call(operation, **arguments)
            self._passes(operation)
            return result

        return Services(call)
