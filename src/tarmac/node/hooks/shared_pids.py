"""Hook: without a process namespace, report commands that may end processes of others. Called by `runner`."""

from __future__ import annotations

import re
from typing import Iterator

from tarmac.node.noderun import NodeRun

_REACHING = re.compile(r"(?:^|[\s;&|(`])(?:pkill|killall)\s")
_LONGEST = 120


def report_shared_pids(run: NodeRun) -> None:
    """Append a notice for each line that ends processes by name; none if the run has its own namespace."""
    if run.namespace is not None:
        return
    for line in dict.fromkeys(_lines(run)):
        if _REACHING.search(f"{line} "):
            where = f"{run.node_name} cannot set a run's processes apart"
            run.events.append("notice", text=f"reaches processes of others too ({where}): {line[:_LONGEST]}")


def _lines(run: NodeRun) -> Iterator[str]:
    commands = [worker.argv for worker in run.part.workers]
    commands += [argv for hook in run.document.hooks.values() for argv in hook]
    for argv in commands:
        if argv and "\n" not in "".join(argv) and len(argv) > 1 and argv[-2] not in ("-c", "-ec"):
            yield " ".join(argv)
            continue
        for word in argv:
            yield from (line.strip() for line in word.splitlines())
