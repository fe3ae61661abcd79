"""`Services`: programs at a host that outlive the connection, and facts about the machine.

Made by `Host`; used by engines that start a cluster. `node/host/services.py` performs the operations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHORT_S = 60.0

END_MARGIN_S = 30.0
"""Time limit for ending a service, beyond its grace."""

REMOVE_S = 600.0


_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_PIP = ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE")
_KEPT = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", *_PROXIES, *_PIP]
"""Variables of the host that affect downloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The state of a service: `pid` of its first process, None if it does not run.

    `since` is by the clock of the host, `lines` are its last output, `left` is the number of processes that
    outlived the first; `started`: it did not run before.
    """

    pid: int | None
    since: float | None
    lines: tuple[str, ...]
    left: int = 0
    started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """A machine: the paths of programs there (None: not found), and its address if known."""

    programs: Mapping[str, str | None]
    address: str | None


class Services:
    """Every call raises Unavailable if the host is unreachable, and OSError for failures there.

    A service is identified by its `place`: a path, with its log and its record beside it. `call` performs an
    operation at the host.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._do = call

    def facts(self, programs: Sequence[str]) -> MachineFacts:
        """Facts about the machine."""
        found = self._call("machine_facts", programs=list(programs))
        return MachineFacts(programs=found["programs"], address=found["address"])

    def install(self, argv: Sequence[str], *, timeout_s: float) -> tuple[int, bytes]:
        """Run a command that downloads: exit code, and output. Raises TimeoutError."""
        code, out, err = self._do(
            "run", argv=list(argv), keep=_KEPT, variables={}, limit_s=timeout_s, timeout_s=timeout_s
        )
        return code, out + err

    def room(self, directory: str) -> int:
        """Write to a directory, creating it if missing; return its free bytes."""
        return int(self._call("room", home=directory)[0])

    def port_problem(self, address: str, port: int) -> str | None:
        """Why no program could listen at this port, None if one could; port 0 tries the address alone."""
        found: str | None = self._call("port_problem", address=address, port=port)
        return found

    def connect_problem(self, address: str, port: int) -> str | None:
        """Why the host cannot connect to an address; None if it can."""
        found: str | None = self._call("connect_problem", address=address, port=port)
        return found

    def free_ports(self, address: str, count: int) -> list[int]:
        """Free ports there."""
        return [int(port) for port in self._call("free_ports", address=address, count=count)]

    def write(self, path: str, content: bytes) -> None:
        """Replace a small file, readable by its user alone."""
        self._call("write", path=path, content=content, private=True)

    def start(
        self, place: str, argv: Sequence[str], *, variables: Mapping[str, str], directories: Sequence[str]
    ) -> ServiceState:
        """Start a service, unless it runs; its directories are created first, for its user alone."""
        found = self._call(
            "start_service",
            place=place,
            argv=list(argv),
            variables=dict(variables),
            directories=list(directories),
        )
        return _state(found)

    def state(self, place: str) -> ServiceState:
        """The current state of a service."""
        return _state(self._call("service", place=place))

    def end(self, place: str, *, grace_s: float) -> bool:
        """End a service: SIGTERM, after the grace SIGKILL to all its processes; return whether any ran."""
        timeout_s = grace_s + END_MARGIN_S
        return bool(self._do("end_service", timeout_s=timeout_s, place=place, grace_s=grace_s))

    def end_agents(self, directory: str) -> None:
        """End the agents that serve a directory there; runs continue."""
        self._call("end_agents", home=directory)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove directories and files recursively."""
        self._do("remove_trees", timeout_s=REMOVE_S, paths=list(paths))

    def _call(self, operation: str, **arguments: Any) -> Any:
        return self._do(operation, timeout_s=SHORT_S, **arguments)


def _state(found: Mapping[str, Any]) -> ServiceState:
    text = bytes(found["lines"]).decode(errors="replace")
    return ServiceState(
        pid=found["pid"],
        since=found["since"],
        lines=tuple(line.strip() for line in text.splitlines() if line.strip()),
        left=int(found["left"]),
        started=bool(found.get("started")),
    )
