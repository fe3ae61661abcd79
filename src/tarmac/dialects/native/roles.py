"""Reads roles: their command or processes, and their request: `slots` in all, or replicas.

Called by the reader and by overrides.
"""

from __future__ import annotations

from tarmac.dialects import quantities
from tarmac.dialects.kinds import choice, flag, integer, number
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.names import ROLE_NAME
from tarmac.dialects.native.commands import (
    read_command,
    refuse_launcher_programs,
    warn_of_fixed_numbers,
)
from tarmac.dialects.native.fields import PROCESS, RESOURCES, ROLE, ROLE_FIELDS
from tarmac.dialects.section import Section, Value
from tarmac.model.resources import DEFAULT_ROLE, Resources
from tarmac.model.spec import ON_FIRST_NODE, FailureBehaviour, Launcher, Process, Role

MOST_REPLICAS = 10_000
MOST_ROLES = 100
MOST_NODES = 10_000
MOST_PROCESSES = 100


def read_roles(run: Section) -> tuple[Role, ...]:
    """The roles of a run file: those under `roles`, else the one that its top-level fields describe."""
    listed = run.get("roles")
    if listed is None:
        return _only(_read_role(DEFAULT_ROLE, run))
    run.exclude("roles", *ROLE_FIELDS, reason="move it into a role")
    roles: list[Role] = []
    for key, value in listed.entries("a mapping from role names to roles"):
        name = key.read(ROLE_NAME, DEFAULT_ROLE)
        if (section := value.section(ROLE)) is not None:
            roles += _only(_read_role(name, section))
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


def _only(role: Role | None) -> tuple[Role, ...]:
    return () if role is None else (role,)


def _read_role(name: str, section: Section) -> Role | None:
    """One role; None, with a problem reported, if it has nothing to execute."""
    section.exclude("processes", "command", "resources", reason="each process has its own")
    section.exclude(
        "slots",
        "replicas",
        "resources",
        "processes",
        reason="'slots' lets the placement choose the nodes and runs the command once on each",
    )
    spread = section.read("slots", quantities.slots(1), None)
    replicas = section.read("replicas", integer(1, MOST_REPLICAS), 1)
    nodes = _nodes(section, spread)
    uneven = _uneven(section)
    on_failure = section.read("on_failure", choice(FailureBehaviour), FailureBehaviour.STOP)
    launcher = _launcher(section)
    processes = _processes(section)
    if not processes:
        return None
    if spread is not None and (command := section.get("command")) is not None:
        warn_of_fixed_numbers(command)
    if spread is None:
        return Role(
            name=name, processes=processes, replicas=replicas, on_failure=on_failure, launcher=launcher
        )
    return Role(
        name=name,
        processes=processes,
        replicas=None,
        slots=spread.slots,
        slot_type=spread.slot_type,
        nodes=nodes,
        uneven=uneven,
        on_failure=on_failure,
        launcher=launcher,
    )


def _launcher(section: Section) -> Launcher | None:
    """The launcher, which starts one process for each slot; refuses commands that do so themselves."""
    section.exclude("launcher", "processes", reason="a launcher starts one command, once for each slot")
    launcher = section.read("launcher", choice(Launcher), None)
    command = section.get("command")
    if launcher in ON_FIRST_NODE and "slots" not in section:
        section.missing("slots", f"how many processes there are: launcher {launcher} starts one for each")
    if launcher is not None and launcher not in ON_FIRST_NODE and command is not None:
        refuse_launcher_programs(command, launcher)
    return launcher


def _nodes(section: Section, spread: Resources | None) -> int | None:
    """The number of nodes among which the slots are split equally; allowed with slots only."""
    value = section.get("nodes")
    if value is None:
        return None
    section.exclude("nodes", "uneven", reason="on a given number of nodes slots are split equally")
    count = value.read(integer(1, MOST_NODES), None)
    if "slots" not in section:
        value.refuse("cannot stand without 'slots'", "copies without slots are 'replicas'")
    elif count is not None and spread is not None and spread.slots % count:
        fits = count * (spread.slots // count + 1)
        value.refuse(f"{spread.slots} slots cannot be split equally over {count} nodes", f"{fits} could")
    return count


def _uneven(section: Section) -> bool:
    """Whether the slots may be split unequally; allowed with slots only."""
    value = section.get("uneven")
    if value is not None and "slots" not in section:
        value.refuse("cannot stand without 'slots'", "it says how slots may be split over nodes")
    return section.read("uneven", flag(), False)


def _processes(section: Section) -> tuple[Process, ...]:
    listed = section.get("processes")
    if listed is not None:
        return _listed_processes(listed)
    command = section.get("command")
    if command is None:
        section.missing("command", "add a line such as 'command: python train.py'")
        return ()
    return _process(command, section.get("resources"))


def _listed_processes(listed: Value) -> tuple[Process, ...]:
    description = "a list of processes, each with a command,"
    if isinstance(listed.node, Items) and not 1 <= len(listed.node.items) <= MOST_PROCESSES:
        listed.refuse(f"{len(listed.node.items)} processes; 1 to {MOST_PROCESSES} are allowed")
        return ()
    processes: list[Process] = []
    for item in listed.items(description):
        section = item.section(PROCESS)
        if section is None:
            continue
        command = section.get("command")
        if command is None:
            section.missing("command", "each process has its own")
            continue
        processes += _process(command, section.get("resources"))
    types = sorted({process.resources.slot_type for process in processes} - {None}, key=str)
    if len(types) > 1:
        listed.refuse(f"processes of one replica share its node, and ask for {' and '.join(map(str, types))}")
    return tuple(processes)


def _process(command: Value, resources: Value | None) -> tuple[Process, ...]:
    needs = Resources() if resources is None else _resources(resources)
    read = read_command(command)
    return () if read is None else (Process(command=read, resources=needs),)


def _resources(value: Value) -> Resources:
    """`h100:8`, `8`, or a mapping with more fields."""
    if isinstance(value.node, Scalar):
        return value.read(quantities.slots(0), Resources())
    section = value.section(RESOURCES)
    if section is None:
        return Resources()
    slots = section.read("slots", quantities.slots(0), Resources())
    kind = section.read("type", quantities.type_name(), None)
    if kind is not None and slots.slot_type is not None and kind != slots.slot_type:
        section.refuse(f"two types of slot: {slots.slot_type} and {kind}")
    return Resources(
        slots=slots.slots,
        slot_type=slots.slot_type or kind,
        cpus=section.read("cpus", number(0, 100_000), 0.0),
        memory_bytes=section.read("memory", quantities.size_bytes(), 0),
    )
