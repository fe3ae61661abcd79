"""Reads the jobs of a request: roles of replicas, each with its processes and their resources."""

import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import choice, integer, text
from tarmac.dialects.located import Items, Node, Scalar
from tarmac.dialects.native.roles import MOST_REPLICAS, MOST_ROLES, processes_of
from tarmac.dialects.schema import MISSING, Custom, Field, read_fields, section_of
from tarmac.dialects.section import Section, Value
from tarmac.model.resources import Resources
from tarmac.model.spec import Command, FailureBehaviour, Process, Role
from tarmac.systems.clusterfudge.argv import argv_doubts
from tarmac.systems.clusterfudge.fields import SLOT_TYPES, record

MB = 1024 * 1024

_SHORT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?", re.ASCII)


def read_roles(listed: Value) -> Any:
    """The roles made of the jobs, and the short names that are no names of roles, by the role's name."""
    count = len(listed.node.items) if isinstance(listed.node, Items) else 1
    if not 1 <= count <= MOST_ROLES:
        many = f"{count} jobs; at most {MOST_ROLES} are allowed"
        listed.refuse(many if count else "jobs must be non-empty")
        return MISSING
    roles: dict[str, Role] = {}
    short_names: dict[str, str] = {}
    for value in listed.items("a list of jobs"):
        section = section_of(value, GROUP)
        if section is None:
            continue
        found = read_fields(section, GROUP)
        short_name = found.get("short_name", "")
        if short_name and short_name in {short_names.get(name, name) for name in roles}:
            section.refuse(f"another job has the short_name {short_name!r}", "it names one job of the launch")
        name = _role_name(short_name or "job", roles)
        if short_name and name != short_name:
            short_names[name] = short_name
            value.problems.warn(None, f"{value.path}.short_name: {short_name!r} is called {name!r} here")
        roles[name] = Role(
            name=name,
            replicas=found.get("replicas", 1),
            processes=found.get("processes", ()),
            # Clusterfudge never documented the default; the names suggest this one.
            on_failure=found.get("replica_failure_behaviour", FailureBehaviour.CONTINUE),
        )
    return tuple(role for role in roles.values() if role.processes), short_names


def blank(node: Node) -> bool:
    """Whether a quoted text is empty or blank."""
    return isinstance(node, Scalar) and node.quoted and not node.text.strip()


def _short_name(value: Value) -> str:
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


def _argv(value: Value) -> Any:
    """The command; MISSING if it is invalid, with a problem reported."""
    if isinstance(value.node, Items) and not value.node.items:
        value.refuse("command must be non-empty")
        return MISSING
    argv = tuple(item.read(text("a text"), "") for item in value.items(_EXAMPLE))
    if isinstance(value.node, Items) and blank(value.node.items[0]):
        value.refuse("the name of the program is empty", _EXAMPLE)
    for doubt in argv_doubts(argv):
        value.problems.warn(None, f"{value.path}: {doubt}")
    return argv or MISSING


def _process(argv: tuple[str, ...], resources: Resources | None = None) -> Process:
    return Process(command=Command(argv=argv), resources=resources or Resources())


def _one_kind(section: Section, found: Mapping[str, int]) -> None:
    kinds = [name for name in SLOT_TYPES if found.get(name)]
    if len(kinds) > 1:
        section.refuse(
            f"one process asks for {' and '.join(kinds)}", "a node has one kind: give each its own process"
        )


def _resources(cpus: int = 0, memory_mb: int = 0, **slots: int) -> Resources:
    slot_type = next((name for name, amount in slots.items() if amount), None)
    return Resources(
        slots=slots[slot_type] if slot_type is not None else 0,
        slot_type=slot_type,
        cpus=float(cpus),
        memory_bytes=memory_mb * MB,
    )


_EXAMPLE = 'a list such as ["python3", "train.py"]'
_SLOT_WORDS = {
    "a100_80gb": "a100 a100_80 a100_80g",
    "a100_40gb": "a100_40 a100_40g",
    "rtx4090": "rtx_4090",
    "rtx3090": "rtx_3090",
}
RESOURCES = record(
    {
        "cpus": Field(integer(0, 100_000), words="cpu num_cpus"),
        "memory_mb": Field(integer(0, 1 << 30), words="mem memory memory_gb ram"),
        **{name: Field(integer(0, 1024), words=_SLOT_WORDS.get(name, "")) for name in SLOT_TYPES},
    },
    _one_kind,
    make=_resources,
)
PROCESS = record(
    {
        "command": Field(Custom(_argv), sets="argv", words="cmd args argv", required=_EXAMPLE),
        "resource_requirements": Field(RESOURCES, sets="resources", words="resources"),
    },
    make=_process,
)
GROUP = record(
    {
        "short_name": Field(Custom(_short_name), words="name", required="each job has a name of its own"),
        "replicas": Field(
            integer(1, MOST_REPLICAS), words="count", required="how many copies of the job there are"
        ),
        "processes": Field(processes_of(PROCESS), words="process", required="each with a command"),
        "replica_failure_behaviour": choice(FailureBehaviour),
    }
)
