"""Roles: their command or processes, and their request: `slots` in all, or replicas."""

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.dialects import quantities, schema
from tarmac.dialects.kinds import choice, flag, integer, number
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.names import ROLE_NAME
from tarmac.dialects.native.commands import COMMAND, refuse_launcher_programs, warn_of_fixed_numbers
from tarmac.dialects.section import Section, Value
from tarmac.model.codec import replace
from tarmac.model.resources import DEFAULT_ROLE, Resources
from tarmac.model.spec import ON_FIRST_NODE, FailureBehaviour, Launcher, Process, Role

MOST_REPLICAS = 10_000
MOST_ROLES = 100
MOST_NODES = 10_000
MOST_PROCESSES = 100


def read_roles(listed: Value) -> tuple[Role, ...]:
    """The roles under `roles`."""
    roles: list[Role] = []
    for key, value in listed.entries("a mapping from role names to roles"):
        name = key.read(ROLE_NAME, DEFAULT_ROLE)
        if (section := schema.section_of(value, ROLE)) is not None:
            roles += read_role(section, schema.read_fields(section, ROLE), name=name)
    if not roles and not listed.problems:
        listed.refuse("at least one role is needed")
    if len(launched := [role.name for role in roles if role.launcher is not None]) > 1:
        listed.refuse(
            f"roles {' and '.join(launched)} each have a launcher",
            "a run has one MASTER_PORT: give one role one",
        )
    if len(roles) > MOST_ROLES:
        listed.refuse(f"{len(roles)} roles; at most {MOST_ROLES} are allowed")
    return tuple(roles)


def read_role(section: Section, found: Mapping[str, Any], *, name: str = DEFAULT_ROLE) -> tuple[Role, ...]:
    """The role of the fields found in a mapping; none, with a problem reported, if it executes nothing."""
    _check_role(section, found)
    processes = found.get("processes", ())
    if "command" in found and "processes" not in section:
        processes = (Process(command=found["command"], resources=found.get("resources", Resources())),)
    elif "command" not in section and "processes" not in section:
        section.missing("command", "add a line such as 'command: python train.py'")
    if not processes:
        return ()
    if (command := section.get("command")) is not None and "slots" in found:
        warn_of_fixed_numbers(command)
    given = {key: found[key] for key in ROLE.fields if key in found}
    role = Role(name=name, processes=processes, **schema.attributes(given, ROLE))
    if (spread := found.get("slots")) is not None:
        return (replace(role, replicas=None, slots=spread.slots, slot_type=spread.slot_type),)
    return (replace(role, nodes=None, uneven=False),)


def _check_role(section: Section, found: Mapping[str, Any]) -> None:
    section.exclude("processes", "command", "resources", reason="each process has its own")
    section.exclude(
        "slots",
        "replicas",
        "resources",
        "processes",
        reason="'slots' lets the placement choose the nodes and runs the command once on each",
    )
    spread, count = found.get("slots"), found.get("nodes")
    if (nodes := section.get("nodes")) is not None:
        section.exclude("nodes", "uneven", reason="on a given number of nodes slots are split equally")
        if "slots" not in section:
            nodes.refuse("cannot stand without 'slots'", "copies without slots are 'replicas'")
        elif count is not None and spread is not None and spread.slots % count:
            fits = count * (spread.slots // count + 1)
            nodes.refuse(f"{spread.slots} slots cannot be split equally over {count} nodes", f"{fits} could")
    if (uneven := section.get("uneven")) is not None and "slots" not in section:
        uneven.refuse("cannot stand without 'slots'", "it says how slots may be split over nodes")
    section.exclude("launcher", "processes", reason="a launcher starts one command, once for each slot")
    launcher, command = found.get("launcher"), section.get("command")
    if launcher in ON_FIRST_NODE and "slots" not in section:
        section.missing("slots", f"how many processes there are: launcher {launcher} starts one for each")
    if launcher is not None and launcher not in ON_FIRST_NODE and command is not None:
        refuse_launcher_programs(command, launcher)


def processes_of(shape: schema.Record) -> schema.Custom:
    """A list of processes of this shape, which share the node of their replica."""
    several = schema.tuple_of(shape, "a list of processes, each with a command,")

    def read(listed: Value) -> Any:
        if isinstance(listed.node, Items) and not 1 <= len(listed.node.items) <= MOST_PROCESSES:
            listed.refuse(f"{len(listed.node.items)} processes; 1 to {MOST_PROCESSES} are allowed")
            return schema.MISSING
        processes = schema.read_value(listed, several)
        if processes is schema.MISSING:
            return schema.MISSING
        types = sorted({process.resources.slot_type for process in processes} - {None}, key=str)
        if len(types) > 1:
            kinds = " and ".join(map(str, types))
            listed.refuse(f"processes of one replica share its node, and ask for {kinds}")
        return processes

    return schema.Custom(read)


def _resources(value: Value) -> Any:
    """`h100:8`, `8`, or a mapping with more fields."""
    if isinstance(value.node, Scalar):
        return value.read(quantities.slots(0), schema.MISSING)
    return schema.read_value(value, RESOURCES)


def _two_types(section: Section, found: Mapping[str, Any]) -> None:
    kind, slots = found.get("type"), found.get("slots", Resources())
    if kind is not None and slots.slot_type is not None and kind != slots.slot_type:
        section.refuse(f"two types of slot: {slots.slot_type} and {kind}")


def _needs(slots: Resources | None = None, slot_type: str | None = None, **more: Any) -> Resources:
    slots = slots or Resources()
    return Resources(slots=slots.slots, slot_type=slots.slot_type or slot_type, **more)


def _written_resources(resources: Resources) -> Any:
    if resources == Resources(slots=resources.slots, slot_type=resources.slot_type) and resources.slots:
        return _written_slots(resources.slots, resources.slot_type)
    return schema.write_record(resources, RESOURCES)


def _written_slots(count: int, slot_type: str | None) -> int | str:
    return count if slot_type is None else f"{slot_type}:{count}"


def written_roles(roles: Sequence[Role]) -> dict[str, Any]:
    """The fields of the only role of the usual name, or the field `roles`."""
    if len(roles) == 1 and roles[0].name == DEFAULT_ROLE:
        return _written_role(roles[0])
    return {"roles": {role.name: _written_role(role) for role in roles}}


def _written_role(role: Role) -> dict[str, Any]:
    spread = {"slots": _written_slots(role.slots, role.slot_type)} if role.slots is not None else {}
    written = spread | schema.write_record(role, ROLE)
    if len(role.processes) == 1:
        return written | schema.write_record(role.processes[0], PROCESS)
    return written | {"processes": [schema.write_record(process, PROCESS) for process in role.processes]}


RESOURCES = schema.record(
    {
        "slots": schema.Field(quantities.slots(0), words="gpu gpus"),
        "type": schema.Field(quantities.TYPE_NAME, sets="slot_type", words="gpu_type slot_type"),
        "cpus": schema.Field(number(0, 100_000), words="cpu"),
        "memory": schema.Field(quantities.SIZE, sets="memory_bytes", words="mem ram memory_mb"),
    },
    _two_types,
    make=_needs,
)
_REQUEST = schema.Custom(_resources, _written_resources, schema.fields_of(RESOURCES))
_COMMAND_WORDS = "cmd entrypoint run script"
PROCESS = schema.record(
    {
        "resources": _REQUEST,
        "command": schema.Field(COMMAND, words=_COMMAND_WORDS, required="each process has its own"),
    },
    make=Process,
)
ROLE = schema.record(
    {
        "slots": schema.Field(quantities.slots(1), sets=None, words="gpu gpus"),
        "nodes": integer(1, MOST_NODES),
        "uneven": flag(),
        "replicas": schema.Field(integer(1, MOST_REPLICAS), words="count num_replicas"),
        "launcher": schema.Field(choice(Launcher), words="launch distributed"),
        "on_failure": schema.Field(choice(FailureBehaviour), words="on_fail failure"),
        "resources": schema.Field(_REQUEST, sets=None),
        "command": schema.Field(COMMAND, sets=None, words=_COMMAND_WORDS),
        "processes": schema.Field(processes_of(PROCESS), sets=None),
    }
)
"""The fields of a role; a file without `roles` has them at its top level, for its only role."""
