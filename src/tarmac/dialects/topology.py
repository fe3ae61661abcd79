"""Finds numbers of nodes and processes in a command that the placement should decide.

Used by the readers of dialects whose commands run once on each node.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NODES = re.compile(r"--(?:nnodes|num_machines|num_nodes)[= ]+(\d{1,9})(?![\d:])", re.ASCII)
_PROCESSES = re.compile(
    r"(?:--(?:nproc(?:[-_]per[-_]node)?|num_gpus)|\bcomposer\s+-n)[= ]+(\d{1,9})(?!\d)", re.ASCII
)
_ALL = re.compile(r"--(?:num_processes|world[-_]size)[= ]+(\d{1,9})(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A system's names for the numbers: nodes, processes on one of them, all processes, and slots."""

    nodes: str
    processes: str
    world: str
    slots: str


def fixed_nodes(command: str, slots: int | None) -> int | None:
    """The number of nodes that a command fixes, if its nodes x processes are all slots."""
    nodes, processes = _NODES.findall(command), _PROCESSES.findall(command)
    if slots is None or len(nodes) != 1 or len(processes) != 1:
        return None
    return int(nodes[0]) if int(nodes[0]) * int(processes[0]) == slots else None


def doubts(command: str, slots: int, names: Names) -> Iterator[str]:
    """Warnings about numbers that differ from the run's: its workers would wait for others."""
    nodes, processes = _NODES.findall(command), _PROCESSES.findall(command)
    if fixed_nodes(command, slots) is not None:
        return
    if len(nodes) == len(processes) == 1:
        product = int(nodes[0]) * int(processes[0])
        yield (
            f"it starts {nodes[0]} x {processes[0]} = {product} processes, and {names.slots} is {slots}: the "
            f"run would wait for ones that never come; always write {names.nodes} and {names.processes}"
        )
        return
    for count, variable in ((nodes, names.nodes), (processes, names.processes)):
        for number in dict.fromkeys(count):
            if int(number) == 0 or slots % int(number):
                yield (
                    f"it says {number} where {variable} belongs, and {names.slots} is {slots}: always write "
                    f"{variable}"
                )
    for number in _ALL.findall(command):
        if int(number) != slots:
            yield f"it starts {number} processes, and {names.slots} is {slots}: write {names.world}"


def process_count(command: str) -> int | None:
    """The number of processes per node that a command fixes, if it names one number and no nodes."""
    found = set(_PROCESSES.findall(command))
    return int(found.pop()) if len(found) == 1 and not _NODES.findall(command) else None
