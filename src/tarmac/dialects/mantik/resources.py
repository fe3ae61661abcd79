"""Reads `Resources`: what the site's batch system is asked for (K7). Called by the reader."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.dialects.kinds import Kind
from tarmac.dialects.located import Scalar
from tarmac.dialects.mantik import kinds
from tarmac.dialects.mantik.fields import RESOURCES, known_part
from tarmac.dialects.section import Section, Value, where

MOST_NODES = 10_000
MOST_CPUS = 10_000_000
MOST_SLOTS_PER_NODE = 1_024
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The values of `Resources`, None where not given."""

    queue: str = ""
    runtime_s: float | None = None
    nodes: int | None = None
    total_cpus: int | None = None
    cpus_per_node: int | None = None
    slots_per_node: int | None = None
    memory_bytes: int | None = None
    reservation: str | None = None
    constraints: str | None = None
    qos: str | None = None


def read_resources(config: Section, warnings: list[str], *, firecrest: bool) -> Asked:
    """The resources, every problem noted."""
    value = config.get("Resources")
    if value is None:
        config.missing("Resources", "add 'Resources:' with at least 'Queue: ...'")
        return Asked()
    section = known_part(value, RESOURCES, warnings)
    if section is None:
        return Asked()
    if "Queue" not in section:
        section.missing("Queue", "name the queue (partition) of the site to submit to")
    asked = Asked(
        queue=section.read("Queue", kinds.one_line("the name of a queue"), ""),
        runtime_s=section.read("Runtime", kinds.runtime_s(), None),
        nodes=section.read("Nodes", kinds.count(MOST_NODES), None),
        total_cpus=_total_cpus(section, warnings),
        cpus_per_node=section.read("CPUsPerNode", kinds.count(MOST_CPUS), None),
        slots_per_node=section.read("GPUsPerNode", kinds.count(MOST_SLOTS_PER_NODE), None),
        memory_bytes=_memory(section, warnings, firecrest=firecrest),
        reservation=section.read("Reservation", kinds.one_line("the id of a reservation"), None),
        constraints=section.read("NodeConstraints", kinds.one_line("a constraint such as gpu"), None),
        qos=section.read("QoS", kinds.one_line("a quality of service"), None),
    )
    _compare(section, asked, warnings)
    return asked


def _total_cpus(section: Section, warnings: list[str]) -> int | None:
    """`TotalCPUs`, or `CPUs` as its first version was called."""
    kind: Kind[int] = kinds.count(MOST_CPUS)
    section.exclude("TotalCPUs", "CPUs", reason="'CPUs' is the old name of 'TotalCPUs'")
    old = section.get("CPUs")
    if old is not None:
        warnings.append(f"{where(old)}this key is now called 'TotalCPUs'; it is read as that")
    return section.read("TotalCPUs", kind, section.read("CPUs", kind, None))


def _memory(section: Section, warnings: list[str], *, firecrest: bool) -> int | None:
    """`MemoryPerNode`, or `Memory` as the document's example spells it."""
    section.exclude("MemoryPerNode", "Memory", reason="both say how much memory a node has")
    value = section.get("MemoryPerNode") or section.get("Memory")
    if value is None:
        return None
    unit_bytes, unit = (MIB, "MiB") if firecrest else (1, "bytes")
    amount = value.read(kinds.memory_bytes(unit_bytes), None)
    if isinstance(value.node, Scalar) and kinds.bare_number(value.node) and amount is not None:
        warnings.append(
            f"{where(value)}{value.node.text} has no unit and is taken as {unit}; write {_plain(amount)}"
        )
    return amount


def _compare(section: Section, asked: Asked, warnings: list[str]) -> None:
    """Warn where what is asked for in all is not what is asked for by node."""
    total = section.get("TotalCPUs") or section.get("CPUs")
    if total is None or asked.total_cpus is None:
        return
    if asked.cpus_per_node is not None and asked.nodes is not None:
        counted = asked.cpus_per_node * asked.nodes
        if counted != asked.total_cpus:
            warnings.append(
                f"{where(total)}Nodes x CPUsPerNode is {counted}, not {asked.total_cpus}: {counted} it is"
            )
    elif asked.cpus_per_node is None:
        _warn_of_repeats(total, asked.total_cpus, warnings)


def _warn_of_repeats(total: Value, cpus: int, warnings: list[str]) -> None:
    if cpus > 1:
        warnings.append(
            f"{where(total)}CPUs in all are given as tasks, and srun starts {cpus} of everything; "
            "say CPUsPerNode for one task on each node"
        )


def _plain(size_bytes: int) -> str:
    for unit, each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % each == 0:
            return f"{size_bytes // each}{unit}"
    return f"{max(1, size_bytes >> 20)}MiB"
