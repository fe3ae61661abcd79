"""A server that is killed while it starts a cluster: from some step on it does nothing, not even clear up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.hosts.host import FILE_S, Host, Reached
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
        return _DoomedHost(host, self._pass)

    def _pass(self, operation: str) -> None:
        with self._passing:
            if operation in STEPS and not self._dead:
                self._dead = self._lives == 0
                self._lives -= 1
            if self._dead:
                raise Killed


class _DoomedHost(Host):
    def __init__(self, host: Host, passes: Callable[[str], None]) -> None:
        super().__init__(host.layout, host.where, seen=host.seen)
        self._host = host
        self._passes = passes

    def examine(self) -> Reached | None:
        return self._host.examine()

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        self._host.refresh(attempt_ids)

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        self._host.take_code(directory, digest, pieces)

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:
        return self._host.stream(argv, variables=variables, mark=mark)

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:
        step = "look" if "--version" in arguments.get("argv", ()) else operation
        self._passes(step)
        result = self._host.call(operation, timeout_s=timeout_s, **arguments)
        self._passes(step)
        return result
