"""`RayServers`: starts, completes, reports and ends a Ray cluster over SSH. Made by `open_servers`.

On each machine one service (`node/host/services.py`) runs `ray start --block`: its processes end with it. All
state is there, so a repeated start completes one that was interrupted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.servers import commands, examining
from tarmac.engines.ray.servers.examining import Examined, problem
from tarmac.model.cluster import Cluster, Machine, MachineProgress, MachineReport, MachineState
from tarmac.model.errors import InvalidInput, Problem, Unavailable
from tarmac.node.files import untrusted

MOST_AT_ONCE = 32

START_S = 300.0
LOOK_EVERY_S = 0.3
INSTALL_S = 1800.0

END_S = 45.0
"""The grace of a Ray: it drains itself for at most 30 s."""

UNDO_S = 5.0
TOKEN_BYTES = 32

S = TypeVar("S")
T = TypeVar("T")

ENGINE = "ray"


class RayServers:
    """Implements `model.kinds.engines.StartsClusters`. The token of each cluster is a file in `tokens`.

    Connections are kept for the next call. Thread-safe.
    """

    def __init__(self, tokens: Path, *, ssh: Callable[[str], Ssh] = Ssh) -> None:
        self._tokens = tokens
        self._ssh = ssh
        self._hosts: dict[Machine, Host] = {}

    def prepare(
        self, name: str, machines: Sequence[Machine], *, install: bool, progress: MachineProgress
    ) -> RayStart:
        """Examine all machines: see `StartsClusters`."""
        try:
            examined = self._examined(name, machines, install=install, progress=progress)
        except InvalidInput:
            self._hosts.clear()
            raise
        return RayStart(name, examined, self._tokens / name, progress)

    def end(
        self, name: str, machines: Sequence[Machine], *, purge: bool, progress: MachineProgress
    ) -> list[Problem]:
        """End the cluster on these machines, workers first: see `StartsClusters`."""

        def end_one(machine: Machine) -> Problem | None:
            try:
                self._end(name, machine, purge=purge, progress=progress)
            except (Unavailable, OSError) as error:
                return problem(machine, examining.reason(machine, error))
            return None

        workers = [machine for machine in machines if not machine.head]
        heads = [machine for machine in machines if machine.head]
        problems = [each for each in _at_once(end_one, workers) if each is not None]
        lost_heads = [each for each in _at_once(end_one, heads) if each is not None]
        if heads and not lost_heads:
            (self._tokens / name).unlink(missing_ok=True)
        return [*problems, *lost_heads]

    def look(self, name: str, machines: Sequence[Machine]) -> list[MachineReport]:
        """The state of the cluster on these machines: see `StartsClusters`."""

        def look_at(machine: Machine) -> MachineReport:
            try:
                host = self._host(machine)
                host.examine()
                state = host.service(commands.Place(name, machine).service)
            except (Unavailable, OSError) as error:
                words = examining.reason(machine, error)
                return MachineReport(machine=machine, state=MachineState.UNREACHABLE, problem=words)
            if state.pid is not None:
                return MachineReport(machine=machine, state=MachineState.UP, pid=state.pid, since=state.since)
            words = commands.last_words(state.lines) or "it does not run"
            return MachineReport(machine=machine, state=MachineState.DOWN, problem=words)

        return _at_once(look_at, machines)

    # --- inside

    def _examined(
        self, name: str, machines: Sequence[Machine], *, install: bool, progress: MachineProgress
    ) -> list[Examined]:
        """The suitable machines. Raises InvalidInput with all problems."""

        def examine(machine: Machine) -> examining.Examination:
            found = examining.Examination(name, machine, self._host(machine))
            state = found.found
            if state is not None and not found.problems:
                ray = f"Ray {state.ray_version}" if state.ray is not None else "no Ray"
                progress(machine.name, f"reached: Python {state.python_version}, {ray}, at {state.address}")
            return found

        examinations = _at_once(examine, machines)
        found = [each.found for each in examinations if each.found is not None]
        problems = [each for examination in examinations for each in examination.problems]
        problems += examining.common_problems(found, install=install)
        _raise_all(problems)
        version = examining.target_version(found)

        def installed(each: Examined) -> Examined | Problem:
            if each.ray is not None:
                return each
            programs, _ = each.host.facts([ray := f"{each.place.environment}/bin/ray"])
            return _install(each, version, progress) if programs[ray] is None else _installed(each, version)

        lacking = [each for each in found if each.ray is None]
        first = _at_once(installed, lacking[:1])  # first alone: the others may share its disk
        _raise_all([each for each in first if isinstance(each, Problem)])
        ready = _at_once(installed, found)
        _raise_all([each for each in ready if isinstance(each, Problem)])
        return [each for each in ready if isinstance(each, Examined)]

    def _end(self, name: str, machine: Machine, *, purge: bool, progress: MachineProgress) -> None:
        host = self._host(machine)
        host.examine()
        place = commands.Place(name, machine)
        ran = host.end_service(place.service, grace_s=END_S)
        host.end_agents(place.runs)  # after Ray, which would start another
        host.remove_trees([place.token, place.state, place.scratch])
        if purge:
            host.remove_trees([place.own, place.runs, place.environment])
        self._hosts.pop(_way(machine), None)
        progress(machine.name, f"{machine.role} ended" if ran else f"{machine.role} did not run")

    def _host(self, machine: Machine) -> Host:
        """The machine as a host, used only for services, so it has no directory of attempts."""
        way = _way(machine)
        if way not in self._hosts:
            python = machine.python or commands.PYTHON
            self._hosts[way] = SshHost(
                Path("/"), self._ssh(machine.target), python=python, copies=self._tokens
            )
        return self._hosts[way]


class RayStart:
    """Examined and suitable machines. Implements `model.kinds.engines.ClusterStart`."""

    def __init__(
        self, name: str, examined: Sequence[Examined], token_file: Path, progress: MachineProgress
    ) -> None:
        self._examined = examined
        self._head = next(each for each in examined if each.machine.head)
        self._port = self._head.machine.port or commands.PORT
        self._address = f"{self._head.address}:{self._port}"
        self._token_file = token_file
        self._progress = progress
        self._began: list[Examined] = []
        self.cluster = Cluster(
            name=name,
            engine=ENGINE,
            settings=self._settings(),
            machines=tuple(each.machine for each in examined),
        )

    def _settings(self) -> dict[str, Any]:
        """The engine's settings: it reaches Ray through the head."""
        head = self._head
        settings: dict[str, Any] = {
            "address": self._address,
            "directory": head.place.runs,
            "python": head.python,
            "ssh": head.machine.target,
            "token_file": str(self._token_file),
        }
        for field in ("slots", "cpus"):
            if (value := getattr(head.machine, field)) is not None:
                settings[field] = value
        return settings

    def begin(self) -> None:
        """Start Ray wherever it does not run: see `ClusterStart`."""
        is_new = not self._token_file.exists()
        try:
            token = _token(self._token_file)
            workers = [each for each in self._examined if each is not self._head]
            for group in ([self._head], workers):
                found = _at_once(lambda each: self._begin_one(each, token), group)
                _raise_all([each for each in found if each is not None])
        except BaseException:
            self._undo(is_new)
            raise

    def _begin_one(self, each: Examined, token: bytes) -> Problem | None:
        """Start Ray on one machine, and wait until it has started."""
        head = self._head
        try:
            silence = None if each is head else each.host.connect_problem(head.address, self._port)
            if silence is not None:
                text = f"it does not reach the head, {head.machine.name} at {self._address}"
                hint = "is a firewall between them, or is an address= wrong?"
                return problem(each.machine, f"{text}: {silence}", hint)
            if not self._launch(each, token):
                self._progress(each.machine.name, f"{each.machine.role} runs already")
                return None
            self._began.append(each)
            return _await_start(each, self._progress)
        except Unavailable as error:
            return problem(each.machine, error.message, error.hint)
        except OSError as error:
            return problem(each.machine, f"{error.filename or 'ray'}: {error.strerror or error}")

    def _launch(self, each: Examined, token: bytes) -> bool:
        """Start Ray on a machine; False if it runs already."""
        host, place = each.host, each.place
        assert each.ray is not None, "installed before"
        host.write(place.token, token, private=True)
        argv = commands.start_argv(
            each.ray,
            each.machine,
            address=each.address,
            head=self._address,
            ports=host.free_ports(each.address, 2),
            scratch=place.scratch,
        )
        state = host.start_service(
            place.service,
            argv,
            variables=commands.start_variables(each.machine, place),
            directories=[place.scratch, *([place.state] if each is self._head else [])],
        )
        return state.started

    def _undo(self, is_new: bool) -> None:
        """End the services that this start began; a new cluster leaves nothing behind."""

        def end_one(each: Examined) -> None:
            place = each.place
            with suppress(Unavailable, OSError):
                each.host.end_service(place.service, grace_s=UNDO_S)
                each.host.remove_trees([place.token, place.scratch, *([place.state] if is_new else [])])
                self._progress(each.machine.name, f"{each.machine.role} ended again")

        _at_once(end_one, [each for each in self._began if each is not self._head])
        _at_once(end_one, [each for each in self._began if each is self._head])
        if is_new:
            self._token_file.unlink(missing_ok=True)


def _way(machine: Machine) -> Machine:
    """The attributes of a machine that affect its connection."""
    return Machine(name=machine.name, user=machine.user, python=machine.python)


def _token(path: Path) -> bytes:
    """The token of a cluster: the same until the cluster is ended."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        return untrusted.read_bytes(str(path), 1024)
    token = secrets.token_hex(TOKEN_BYTES).encode()
    untrusted.replace(str(path), token, mode=0o600)
    return token


def _await_start(each: Examined, progress: MachineProgress) -> Problem | None:
    """Wait until Ray reports its start; return its output as a problem if it ended instead."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        state = each.host.service(each.place.service)
        if any(commands.STARTED in line for line in state.lines):
            progress(each.machine.name, f"{each.machine.role} started, process {state.pid}")
            return None
        if state.pid is None:
            words = commands.last_words(state.lines) or "it printed nothing"
            return problem(each.machine, f"Ray ended: {words}", f"all of it: {each.place.service}.log there")
        time.sleep(LOOK_EVERY_S)
    return problem(
        each.machine, f"Ray did not start within {START_S:g} s", f"see {each.place.service}.log there"
    )


def _install(each: Examined, version: str, progress: MachineProgress) -> Examined | Problem:
    """Install Ray in the directory of a machine: the machine with it, or the problem."""
    progress(each.machine.name, f"installing Ray {version} in {each.place.environment}")
    for argv in commands.installing(each.python, each.place.environment, version):
        try:
            code, printed = each.host.install(argv, timeout_s=INSTALL_S)
        except (Unavailable, OSError) as error:
            return problem(each.machine, f"Ray {version} could not be installed: {error}")
        if code != 0:
            words = [line for line in printed.decode(errors="replace").splitlines() if line.strip()]
            text = f"Ray {version} could not be installed: {''.join(words[-1:])[:300]}"
            return problem(each.machine, text, f"by hand: {' '.join(argv)}")
    progress(each.machine.name, f"Ray {version} is installed")
    return _installed(each, version)


def _installed(each: Examined, version: str) -> Examined:
    """The machine with the Ray in its directory."""
    ray, python = (f"{each.place.environment}/bin/{name}" for name in ("ray", "python3"))
    return replace(each, ray=ray, ray_version=version, python=python)


def _at_once(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """The results in the order of the items, which are processed in parallel."""
    if not items:
        return []
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(items)), thread_name_prefix="ray-servers") as pool:
        return list(pool.map(function, items))


def _raise_all(problems: Sequence[Problem]) -> None:
    if problems:
        raise InvalidInput(problems)
