"""A server that is killed while it starts a cluster: from some step on it does nothing, not even clear up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, cast

from tarmac.engines.hosts.host import Host, Reach
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
        host = super()._host(machine)
        return Host(host.layout, cast(Reach, _DoomedReach(host._reach, self._pass)), seen=host.seen)

    def _pass(self, operation: str) -> None:
        with self._passing:
            if operation in STEPS and not self._dead:
                self._dead = self._lives == 0
                self._lives -= 1
            if self._dead:
                raise Killed


class _DoomedReach:
    def __init__(self, reach: Reach, passes: Callable[[str], None]) -> None:
        self._reach = reach
        self._passes = passes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reach, name)

    def call(self, operation: str, **arguments: Any) -> Any:
        step = "look" if "--version" in arguments.get("argv", ()) else operation
        self._passes(step)
        result = self._reach.call(operation, **arguments)
        self._passes(step)
        return result
