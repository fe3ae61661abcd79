"""The current resource use of runs, as cells and as one line. Called by `queueview` and by `show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import size

if TYPE_CHECKING:
    from tarmac import api

TITLES = ("CPUS", "MEMORY", "GPU", "GPU MEMORY")


def cells(nodes: Sequence[api.NodeUtilization]) -> tuple[str, ...]:
    """A text for each of the titles, for all nodes together; "" for unknown values."""
    if not nodes:
        return ("",) * len(TITLES)
    gpus = [gpu for node in nodes for gpu in node["gpus"]]
    used = sum(gpu["used_bytes"] for gpu in gpus)
    total = sum(gpu["total_bytes"] for gpu in gpus)
    busy = sum(gpu["busy_percent"] for gpu in gpus)
    return (
        f"{sum(node['cpus'] for node in nodes):.1f}",
        size(sum(node["memory_bytes"] for node in nodes)),
        f"{busy / len(gpus):.0f} %" if gpus else "",
        f"{size(used)} of {size(total)}" if gpus else "",
    )


def line(nodes: Sequence[api.NodeUtilization]) -> str:
    """The same as one text; "" if all values are unknown."""
    if not nodes:
        return ""
    cpus, memory, busy, of_gpus = cells(nodes)
    count = sum(len(node["gpus"]) for node in nodes)
    named = f"{count} GPUs" if count > 1 else "GPU"
    gpus = f"; {named} {busy} busy, {of_gpus}" if count else ""
    return f"{cpus} CPUs, {memory} of memory{gpus}"
