"""Reads `Resources`: a run's request to the site's batch system (K7). Called by the reader."""

import re

from tarmac.dialects.kinds import Kind, Misfit, integer, lenient, line
from tarmac.dialects.located import Scalar
from tarmac.dialects.section import Section, Value
from tarmac.model.site import SiteRequest
from tarmac.systems.mantik.fields import RESOURCES, known_part

MOST_NODES = 10_000
MOST_CPUS = 10_000_000
MOST_SLOTS_PER_NODE = 1_024
MIB = 1 << 20


def read_resources(config: Section, *, firecrest: bool) -> tuple[SiteRequest, float | None]:
    """The resources, every problem reported, and the time limit in seconds."""
    value = config.get("Resources")
    if value is None:
        config.missing("Resources", "add 'Resources:' with at least 'Queue: ...'")
        return SiteRequest(queue=""), None
    section = known_part(value, RESOURCES)
    if section is None:
        return SiteRequest(queue=""), None
    if "Queue" not in section:
        section.missing("Queue", "name the queue (partition) of the site to submit to")
    resources = SiteRequest(
        queue=section.read("Queue", line("the name of a queue", 255), ""),
        nodes=section.read("Nodes", integer(1, MOST_NODES, of=lenient), None),
        total_cpus=_total_cpus(section),
        cpus_per_node=section.read("CPUsPerNode", integer(1, MOST_CPUS, of=lenient), None),
        slots_per_node=section.read("GPUsPerNode", integer(1, MOST_SLOTS_PER_NODE, of=lenient), None),
        memory_per_node_bytes=_memory(section, firecrest=firecrest),
        reservation=section.read("Reservation", line("the id of a reservation", 255), None),
        constraints=section.read("NodeConstraints", line("a constraint such as gpu", 255), None),
        qos=section.read("QoS", line("a quality of service", 255), None),
    )
    _compare(section, resources)
    return resources, section.read("Runtime", runtime_s(), None)


def _total_cpus(section: Section) -> int | None:
    """`TotalCPUs`, or its first name `CPUs`."""
    kind: Kind[int] = integer(1, MOST_CPUS, of=lenient)
    section.exclude("TotalCPUs", "CPUs", reason="'CPUs' is the old name of 'TotalCPUs'")
    old = section.get("CPUs")
    if old is not None:
        old.warn("this key is now called 'TotalCPUs'; it is read as that")
    return section.read("TotalCPUs", kind, section.read("CPUs", kind, None))


def _memory(section: Section, *, firecrest: bool) -> int | None:
    """`MemoryPerNode`, or `Memory` as the document's example spells it."""
    section.exclude("MemoryPerNode", "Memory", reason="both say how much memory a node has")
    value = section.get("MemoryPerNode") or section.get("Memory")
    if value is None:
        return None
    unit_bytes, unit = (MIB, "MiB") if firecrest else (1, "bytes")
    amount = value.read(memory_bytes(unit_bytes), None)
    if isinstance(value.node, Scalar) and bare_number(value.node) and amount is not None:
        value.warn(f"{value.node.text} has no unit and is taken as {unit}; write {_plain(amount)}")
    return amount


def _compare(section: Section, resources: SiteRequest) -> None:
    """Warn if the total of processors differs from the sum over nodes."""
    total = section.get("TotalCPUs") or section.get("CPUs")
    if total is None or resources.total_cpus is None:
        return
    if resources.cpus_per_node is not None and resources.nodes is not None:
        counted = resources.cpus_per_node * resources.nodes
        if counted != resources.total_cpus:
            total.warn(f"Nodes x CPUsPerNode is {counted}, not {resources.total_cpus}: {counted} it is")
    elif resources.cpus_per_node is None:
        _warn_of_repeats(total, resources.total_cpus)


def _warn_of_repeats(total: Value, cpus: int) -> None:
    if cpus > 1:
        total.warn(
            f"CPUs in all are given as tasks, and srun starts {cpus} of everything; "
            "say CPUsPerNode for one task on each node"
        )


def _plain(size_bytes: int) -> str:
    for unit, each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % each == 0:
            return f"{size_bytes // each}{unit}"
    return f"{max(1, size_bytes >> 20)}MiB"


def runtime_s() -> Kind[float]:
    """`<value><unit>`, one unit of s, m, h, d; in seconds (K7)."""

    def read(scalar: Scalar) -> float:
        found = _RUNTIME.fullmatch(scalar.text)
        if found is None:
            raise Misfit(_runtime_hint(scalar.text))
        seconds = int(found["value"]) * _UNITS_S[found["unit"]]
        if not 1 <= seconds <= LONGEST_RUNTIME_S:
            raise Misfit("at least 1s and at most 3650d")
        return float(seconds)

    return Kind("a whole number with one unit of s, m, h and d, such as 12h,", read)


def memory_bytes(bare_unit_bytes: int) -> Kind[int]:
    """An amount of memory in bytes; a bare number counts units of `bare_unit_bytes`."""

    def read(scalar: Scalar) -> int:
        found = _MEMORY.fullmatch(scalar.text.strip())
        if found is None:
            raise Misfit()
        unit = found["unit"].lower()
        each = bare_unit_bytes if not unit else _UNITS_BYTES[unit]
        size = int(float(found["value"]) * each)
        if not (1 << 20) <= size <= 1 << 50:
            raise Misfit("at least 1MiB and at most 1024TiB")
        return size

    return Kind("an amount of memory such as 12GiB", read)


def bare_number(scalar: Scalar) -> bool:
    """Whether an amount of memory has no unit."""
    return _MEMORY.fullmatch(scalar.text.strip()) is not None and scalar.text.strip()[-1:].isdigit()


def _runtime_hint(text: str) -> str | None:
    if re.fullmatch(r"\s*[0-9]+\s*", text, re.ASCII):
        return f"add a unit: {text.strip()}m or {text.strip()}h"
    if re.fullmatch(r"([0-9]+\s*[smhd]\s*){2,}", text, re.ASCII):
        return "only one unit is allowed: write 1h30m as 90m"
    if re.fullmatch(r"[0-9]+\.[0-9]+[smhd]", text, re.ASCII):
        return "write 1.5h as 90m"
    if re.fullmatch(r"([0-9]+-)?[0-9]+:[0-9]+(:[0-9]+)?", text, re.ASCII):
        return "write it with a unit, 12:00:00 as 12h"
    return None


LONGEST_RUNTIME_S = 3650 * 86400
_RUNTIME = re.compile(r"\s*(?P<value>[0-9]{1,12})\s*(?P<unit>[smhd])\s*", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MEMORY = re.compile(
    r"(?P<value>[0-9]{1,15}(\.[0-9]{1,6})?)\s*(?P<unit>|[kmgt](i?b)?)", re.ASCII | re.IGNORECASE
)
_UNITS_BYTES = (
    {prefix: 1024**power for power, prefix in enumerate("kmgt", start=1)}
    | {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)}
    | {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)}
)
