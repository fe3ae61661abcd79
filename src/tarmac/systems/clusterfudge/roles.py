"""Reads the jobs of a request: roles of replicas, each with its processes and their resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.dialects.kinds import choice, integer, text
from tarmac.dialects.located import Items, Node, Scalar
from tarmac.dialects.section import Section
from tarmac.model.resources import Resources
from tarmac.model.spec import Command, FailureBehaviour, Process, Role
from tarmac.systems.clusterfudge.argv import argv_doubts
from tarmac.systems.clusterfudge.fields import GROUP, PROCESS, RESOURCES, SLOT_TYPES

MOST_REPLICAS = 10_000
MOST_ROLES = 100
MOST_PROCESSES = 100
MB = 1024 * 1024

_SHORT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles made of the jobs; `short_names` has the original names that are not valid, by role name."""

    roles: tuple[Role, ...] = ()
    short_names: Mapping[str, str] = field(default_factory=dict)


def read_roles(request: Section) -> Roles:
    """The roles of a request."""
    listed = request.get("jobs")
    if listed is None:
        request.missing("jobs", "a launch has at least one job")
        return Roles()
    count = len(listed.node.items) if isinstance(listed.node, Items) else 1
    if not 1 <= count <= MOST_ROLES:
        many = f"{count} jobs; at most {MOST_ROLES} are allowed"
        listed.refuse(many if count else "jobs must be non-empty")
        return Roles()
    roles: dict[str, Role] = {}
    short_names: dict[str, str] = {}
    for value in listed.items("a list of jobs"):
        section = value.section(GROUP)
        if section is None:
            continue
        short_name = _short_name(section)
        if short_name and short_name in {short_names.get(name, name) for name in roles}:
            section.refuse(f"another job has the short_name {short_name!r}", "it names one job of the launch")
        name = _role_name(short_name or "job", roles)
        if short_name and name != short_name:
            short_names[name] = short_name
            value.problems.warn(None, f"{value.path}.short_name: {short_name!r} is called {name!r} here")
        roles[name] = _role(name, section)
    return Roles(roles=tuple(role for role in roles.values() if role.processes), short_names=short_names)


def blank(node: Node) -> bool:
    """Whether a quoted text is empty or blank."""
    return isinstance(node, Scalar) and node.quoted and not node.text.strip()


def _short_name(section: Section) -> str:
    value = section.get("short_name")
    if value is None:
        section.missing("short_name", "each job has a name of its own")
        return ""
    if blank(value.node):
        value.refuse("short_name must be non-empty")
        return ""
    return value.read(text(), "")


def _role_name(short_name: str, taken: Mapping[str, object]) -> str:
    """The short name if it is a valid role name, else one derived from it; unique among `taken`."""
    if _SHORT_NAME.fullmatch(short_name):
        name = short_name
    else:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", short_name, flags=re.ASCII)[:32].strip("-_") or "job"
    candidates = [name, *(f"{name[:28]}-{number}" for number in range(2, MOST_ROLES + 2))]
    return next(candidate for candidate in candidates if candidate not in taken)


def _role(name: str, section: Section) -> Role:
    """One role; without processes, and with a problem reported, if it has nothing to execute."""
    if "replicas" not in section:
        section.missing("replicas", "how many copies of the job there are")
    return Role(
        name=name,
        replicas=section.read("replicas", integer(1, MOST_REPLICAS), 1),
        processes=_processes(section),
        # Clusterfudge never documented the default; the names suggest this one.
        on_failure=section.read(
            "replica_failure_behaviour", choice(FailureBehaviour), FailureBehaviour.CONTINUE
        ),
    )


def _processes(section: Section) -> tuple[Process, ...]:
    listed = section.get("processes")
    if listed is None:
        section.missing("processes", "each with a command")
        return ()
    if isinstance(listed.node, Items) and not 1 <= len(listed.node.items) <= MOST_PROCESSES:
        listed.refuse(f"{len(listed.node.items)} processes; 1 to {MOST_PROCESSES} are allowed")
        return ()
    processes = []
    for item in listed.items("a list of processes, each with a command,"):
        process = item.section(PROCESS)
        if process is not None and (argv := _argv(process)):
            processes.append(Process(command=Command(argv=argv), resources=_resources(process)))
    types = sorted({process.resources.slot_type or "" for process in processes} - {""})
    if len(types) > 1:
        listed.refuse(f"processes of one replica share its node, and ask for {' and '.join(types)}")
    return tuple(processes)


def _argv(process: Section) -> tuple[str, ...]:
    value = process.get("command")
    if value is None:
        process.missing("command", 'a list such as ["python3", "train.py"]')
        return ()
    example = 'a list such as ["python3", "train.py"]'
    if isinstance(value.node, Items) and not value.node.items:
        value.refuse("command must be non-empty")
        return ()
    argv = tuple(item.read(text("a text"), "") for item in value.items(example))
    if isinstance(value.node, Items) and blank(value.node.items[0]):
        value.refuse("the name of the program is empty", example)
    for doubt in argv_doubts(argv):
        value.problems.warn(None, f"{value.path}: {doubt}")
    return argv


def _resources(process: Section) -> Resources:
    value = process.get("resource_requirements")
    section = value.section(RESOURCES) if value is not None else None
    if value is None or section is None:
        return Resources()
    amounts = {name: section.read(name, integer(0, 1024), 0) for name in SLOT_TYPES}
    amounts_above_0 = {name: amount for name, amount in amounts.items() if amount}
    if len(amounts_above_0) > 1:
        value.refuse(
            f"one process asks for {' and '.join(amounts_above_0)}",
            "a node has one kind: give each its own process",
        )
    slot_type = next(iter(amounts_above_0), None)
    return Resources(
        slots=amounts_above_0[slot_type] if slot_type is not None else 0,
        slot_type=slot_type,
        cpus=float(section.read("cpus", integer(0, 100_000), 0)),
        memory_bytes=section.read("memory_mb", integer(0, 1 << 30), 0) * MB,
    )
