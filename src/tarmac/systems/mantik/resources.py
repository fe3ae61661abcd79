"""Reads `Resources`: a run's request to the site's batch system (K7). A part of the reader's table."""

import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, integer, lenient, line
from tarmac.dialects.located import Scalar
from tarmac.dialects.quantities import BYTES, LONGEST_S, SECONDS
from tarmac.dialects.schema import MISSING, Custom, Field, Record
from tarmac.dialects.section import Section, Value
from tarmac.systems.mantik.fields import record

MOST_NODES = 10_000
MOST_CPUS = 10_000_000
MOST_SLOTS_PER_NODE = 1_024


def _table(*, firecrest: bool) -> Record:
    """The table of `Resources`: an amount of memory without a unit means MiB to firecREST, else bytes."""
    unit = "MiB" if firecrest else "bytes"
    cpus: Kind[int] = integer(1, MOST_CPUS, of=lenient)

    def read_memory(value: Value) -> Any:
        amount = value.read(memory_bytes(1 << 20 if firecrest else 1), MISSING)
        if amount is not MISSING and isinstance(value.node, Scalar) and value.node.text.strip()[-1].isdigit():
            value.warn(f"{value.node.text} has no unit and is taken as {unit}; write {_plain(amount)}")
        return amount

    memory = Field(Custom(read_memory), sets="site.memory_per_node_bytes")
    return record(
        {
            "Queue": Field(
                line("the name of a queue", 255),
                sets="site.queue",
                words="partition",
                required="name the queue (partition) of the site to submit to",
            ),
            "Nodes": Field(integer(1, MOST_NODES, of=lenient), sets="site.nodes"),
            "CPUs": Field(
                cpus, sets="site.total_cpus", ignored="this key is now called 'TotalCPUs'; it is read as that"
            ),
            "TotalCPUs": Field(cpus, sets="site.total_cpus"),
            "CPUsPerNode": Field(cpus, sets="site.cpus_per_node"),
            "GPUsPerNode": Field(
                integer(1, MOST_SLOTS_PER_NODE, of=lenient), sets="site.slots_per_node", words="gpus"
            ),
            "Memory": memory,
            "MemoryPerNode": memory,
            "Reservation": Field(line("the id of a reservation", 255), sets="site.reservation"),
            "NodeConstraints": Field(
                line("a constraint such as gpu", 255), sets="site.constraints", words="constraint constraints"
            ),
            "QoS": Field(line("a quality of service", 255), sets="site.qos"),
            "Runtime": Field(_RUNTIME, sets="time_limit_s", words="time walltime"),
        },
        _check,
        make=dict,
    )


def _check(section: Section, found: Mapping[str, Any]) -> None:
    """Refuse two names for one amount; warn if the total of processors differs from the sum over nodes."""
    section.exclude("TotalCPUs", "CPUs", reason="'CPUs' is the old name of 'TotalCPUs'")
    section.exclude("MemoryPerNode", "Memory", reason="both say how much memory a node has")
    name = "TotalCPUs" if "TotalCPUs" in section else "CPUs"
    total, each, nodes = found.get(name), found.get("CPUsPerNode"), found.get("Nodes")
    if total is None:
        return
    if each is None and total > 1:
        section[name].warn(
            f"CPUs in all are given as tasks, and srun starts {total} of everything; "
            "say CPUsPerNode for one task on each node"
        )
    elif each is not None and nodes is not None and each * nodes != total:
        section[name].warn(f"Nodes x CPUsPerNode is {each * nodes}, not {total}: {each * nodes} it is")


def _plain(size_bytes: int) -> str:
    for unit, each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % each == 0:
            return f"{size_bytes // each}{unit}"
    return f"{max(1, size_bytes >> 20)}MiB"


def _runtime_s(scalar: Scalar) -> float:
    """`<value><unit>`, one unit of s, m, h, d; in seconds (K7)."""
    found = re.fullmatch(r"\s*([0-9]{1,12})\s*([smhd])\s*", scalar.text, re.ASCII)
    if found is None:
        raise Misfit(_runtime_hint(scalar.text))
    seconds = int(found[1]) * SECONDS[found[2]]
    if not 1 <= seconds <= LONGEST_S:
        raise Misfit("at least 1s and at most 3650d")
    return float(seconds)


_RUNTIME = Kind("a whole number with one unit of s, m, h and d, such as 12h,", _runtime_s)


def memory_bytes(bare_unit_bytes: int) -> Kind[int]:
    """An amount of memory in bytes; a bare number counts units of `bare_unit_bytes`."""

    def read(scalar: Scalar) -> int:
        found = _MEMORY.fullmatch(scalar.text.strip())
        if found is None:
            raise Misfit()
        size = int(float(found["value"]) * _UNITS_BYTES.get(found["unit"].lower(), bare_unit_bytes))
        if not (1 << 20) <= size <= 1 << 50:
            raise Misfit("at least 1MiB and at most 1024TiB")
        return size

    return Kind("an amount of memory such as 12GiB", read)


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


_MEMORY = re.compile(
    r"(?P<value>[0-9]{1,15}(\.[0-9]{1,6})?)\s*(?P<unit>|[kmgt](i?b)?)", re.ASCII | re.IGNORECASE
)
_UNITS_BYTES = {unit.lower(): size for unit, size in BYTES.items() if unit != "B"} | {
    unit[0].lower(): size for unit, size in BYTES.items() if unit.endswith("iB")
}

RESOURCES = {firecrest: _table(firecrest=firecrest) for firecrest in (False, True)}
"""The tables for UNICORE and for firecREST."""
