"""The reports of a run's workers, read from its attempt directories. Called by the route for them."""

from __future__ import annotations

from typing import Any

from tarmac.control.service import ControlPlane
from tarmac.model.run import Run
from tarmac.node.protocol import NODES, REPORTS_FILE
from tarmac.server.log_files import parsed, reader, whole


def reports_of(plane: ControlPlane, run: Run) -> list[dict[str, Any]]:
    """All reports of a run, oldest first."""
    reports = []
    for attempt in plane.attempts(run.id):
        read = reader(plane, attempt.id)
        for node in attempt.allocation.nodes:
            lines = whole(read, f"{NODES}/{node}/{REPORTS_FILE}").split(b"\n")
            reports += [_record(line, attempt.number, node) for line in map(parsed, lines) if "at" in line]
    return sorted(reports, key=lambda report: (report["attempt"], report["at"], report["node"]))


def _record(line: dict[str, Any], attempt: int, node: str) -> dict[str, Any]:
    return {
        "at": line["at"],
        "attempt": attempt,
        "node": node,
        "metrics": line.get("metrics") or {},
        "progress": line.get("progress"),
        "step": line.get("step"),
    }
