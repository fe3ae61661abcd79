"""Checks whether machines can join a Ray cluster: all problems of all machines, at once.

Called by `RayServers` before anything is started. The only change there is that a directory is created.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tarmac.engines.hosts.host import Host, ServiceState
from tarmac.engines.ray.servers import commands
from tarmac.engines.ray.servers.commands import Place
from tarmac.model.cluster import Machine
from tarmac.model.codec import replace
from tarmac.model.errors import Problem, Unavailable

CLOCK_ERROR_S = 5.0
LEAST_FREE_BYTES = 1 << 30
OLDEST_PYTHON = (3, 9)
COMMAND_S = 120.0
"""Time limit for a Python or Ray to print its version, from a shared disk under load."""

_VERSION = re.compile(r"(?<![0-9.])[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9A-Za-z]{1,20})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An examined machine. `ray` is the path of its Ray, None if it has none."""

    machine: Machine
    host: Host
    place: Place
    address: str
    python: str
    python_version: str
    ray: str | None
    ray_version: str | None
    service: ServiceState


class Examination:
    """One machine: `found` if it is reachable and sufficiently known, and all its `problems`."""

    def __init__(self, cluster: str, machine: Machine, host: Host) -> None:
        self.machine = machine
        self.problems: list[Problem] = []
        self.found: Examined | None = None
        self._host = host
        try:
            self.found = self._examine(cluster)
        except Unavailable as error:
            self._note(reason(machine, error), error.hint)
        except OSError as error:
            self._note(f"{error.filename or 'its files'}: {error.strerror or error}")

    def _note(self, text: str, hint: str | None = None) -> None:
        self.problems.append(problem(self.machine, text, hint))

    def _examine(self, cluster: str) -> Examined | None:
        machine, host = self.machine, self._host
        reached = host.examine()
        if reached is not None and abs(reached.ahead_s) > CLOCK_ERROR_S:
            way = "ahead of" if reached.ahead_s > 0 else "behind"
            self._note(
                f"its clock is {abs(reached.ahead_s):.0f} s {way} the server's",
                "have it set by NTP or chrony",
            )
        python = machine.python or commands.PYTHON
        place = Place(cluster, machine)
        installed, beside = f"{place.environment}/bin/ray", commands.ray_beside(python)
        programs, own_address = host.facts([installed, beside, python])
        ray = programs[installed] or programs[beside]
        if programs[installed] is not None:
            python = f"{place.environment}/bin/python3"
        found_python = self._python(python)
        ray_version = self._version(ray) if ray is not None else None
        self._directory(place)
        service = host.service(place.service)
        address = machine.address or own_address
        if address is None:
            self._note("its address is not known", "write address=IP, at which the other hosts reach it")
        elif (text := host.port_problem(address, 0)) is not None:
            self._note(text, "address= is the one at which the other hosts reach it")
        elif machine.head and service.pid is None and not service.left:
            text = host.port_problem(address, machine.port or commands.PORT)
            if text is not None:
                self._note(f"{text}, where the head would listen", "another Ray? port= names another port")
        if address is None or found_python is None:
            return None
        return Examined(
            machine=replace(machine, address=address, directory=place.directory),
            host=host,
            place=place,
            address=address,
            python=programs.get(python) or python,
            python_version=found_python,
            ray=ray,
            ray_version=ray_version,
            service=service,
        )

    def _python(self, python: str) -> str | None:
        """The version of a Python; None, with a problem reported, if none is suitable."""
        version = self._version(python)
        if version is not None and tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_PYTHON:
            self._note(f"{python} is {version}: 3.9 or later is needed", "python= names another")
            return None
        return version

    def _version(self, program: str) -> str | None:
        code, out, err = self._host.run([program, "--version"], variables={}, timeout_s=COMMAND_S)
        text = (out + b"\n" + err).decode(errors="replace").strip()
        found = _VERSION.search(text)
        if code != 0 or found is None:
            last = text.splitlines()[-1:]
            self._note(f"{program} --version says no version: {''.join(last)[:200] or f'exit code {code}'}")
            return None
        return found[0]

    def _directory(self, place: Place) -> None:
        try:
            free_bytes, _ = self._host.room(place.own)
        except OSError as error:
            self._note(
                f"{place.own} cannot be written: {error.strerror or error}", "directory= names another place"
            )
            return
        if free_bytes < LEAST_FREE_BYTES:
            self._note(
                f"{place.own} has {free_bytes >> 20} MiB left: {LEAST_FREE_BYTES >> 20} are needed",
                "free some, or name another place by directory=",
            )


def common_problems(found: Sequence[Examined], *, install: bool) -> Iterator[Problem]:
    """Contradictions between machines that are each suitable."""
    if not found:
        return
    by_address: dict[str, list[Examined]] = {}
    for each in found:
        by_address.setdefault(each.address, []).append(each)
    for name, machines in by_address.items():
        if len(machines) > 1:
            listed = " and ".join(each.machine.name for each in machines)
            hint = "write address=IP, at which the other hosts reach it"
            yield problem(machines[1].machine, f"{listed} have the same address, {name}", hint)
    python = _usual([each.python_version for each in found], _head(found).python_version)
    places = {each.place.directory for each in found}
    if len(places) > 1:
        text = f"directory= differs between hosts: {', '.join(sorted(places))}"
        yield Problem(
            message=text, hint="runs need the same path on all, be it on a disk of each or on a shared one"
        )
    for each in found:
        if each.python_version != python:
            yield problem(
                each.machine,
                f"{each.python} is {each.python_version}, that of other hosts {python}",
                "Ray needs the same Python on all; python= names one",
            )
    target = target_version(found)
    for each in found:
        if each.ray is None and not install:
            hint = "--install puts one into its directory; python= names an interpreter that has it"
            yield problem(each.machine, f"there is no Ray with {each.python}", hint)
        elif each.ray_version is not None and each.ray_version != target:
            hint = f"all hosts need the same: pip install ray=={target}"
            yield problem(each.machine, f"its Ray is {each.ray_version}, that of other hosts {target}", hint)


def target_version(found: Sequence[Examined]) -> str:
    """The target version of Ray for all machines: the most frequent one, or that of `--install`."""
    known = [each.ray_version for each in found if each.ray_version is not None]
    return _usual(known, _head(found).ray_version or commands.RAY_VERSION) if known else commands.RAY_VERSION


def problem(machine: Machine, text: str, hint: str | None = None) -> Problem:
    """A problem with a machine."""
    return Problem(message=f"{machine.name}: {text}", hint=hint)


def _head(found: Sequence[Examined]) -> Examined:
    return next((each for each in found if each.machine.head), found[0])


def _usual(values: Sequence[str], preferred: str) -> str:
    """The most frequent value; of several, the preferred one."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value == preferred, value))


def reason(machine: Machine, error: Unavailable | OSError) -> str:
    """The reason why an operation on a machine failed, without the machine's name as prefix."""
    text = error.message if isinstance(error, Unavailable) else f"{error.strerror or error}"
    return text.removeprefix(f"{machine.target}: ")
