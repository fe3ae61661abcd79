"""The reports of a run's workers, read from its attempt directories. Called by the route for them."""

from __future__ import annotations

from json import dumps
from math import isfinite
from typing import Any

from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.errors import Unavailable
from tarmac.model.run import Run
from tarmac.node.attempt.protocol import NODES, REPORTS_FILE, rank_name
from tarmac.node.files import untrusted
from tarmac.node.files.masking import Mask
from tarmac.server.logs.log_files import LONGEST_BYTES, last_part, parsed, reader

_LATEST = 1e12
_LARGEST = 2**63 - 1
_LONGEST_TEXT = 1000


def reports_of(plane: ControlPlane, actor: Actor, run: Run, mask: Mask) -> list[dict[str, Any]]:
    """The reports of a run, oldest first: of a file longer than `LONGEST_BYTES` those at its end.

    `mask` hides secrets in them. Those of an attempt whose files cannot be reached now are left out.
    """
    reports = []
    for attempt in plane.attempts(actor, run.id):
        read = reader(plane, actor, attempt.id)
        for rank, node in enumerate(attempt.allocation.nodes):
            part = node if attempt.native is None else rank_name(rank)  # as the attempt's directory has it
            path = f"{NODES}/{part}/{REPORTS_FILE}"
            try:
                lines = last_part(read, path, LONGEST_BYTES)[0].split(b"\n")
            except Unavailable:
                break
            objects = (parsed(line) for line in lines if len(line) <= untrusted.LONGEST_LINE_BYTES)
            found = (_record(line, attempt.number, node) for line in objects if _is_report(line))
            reports += [mask.tree(record) for record in found]
    return sorted(reports, key=lambda report: (report["attempt"], report["at"], report["node"]))


def _is_report(line: dict[str, Any]) -> bool:
    """Whether a line has the form that the SDK writes: a worker may write any other."""
    number = {int, float}
    return (
        type(line.get("at")) in number
        and 0 <= line["at"] < _LATEST
        and type(line.get("step")) in {int, type(None)}
        and abs(line.get("step") or 0) <= _LARGEST
        and type(line.get("progress")) in {int, float, str, type(None)}
        and isinstance(line.get("metrics") or {}, dict)
    )


def _record(line: dict[str, Any], attempt: int, node: str) -> dict[str, Any]:
    progress = line.get("progress")
    return {
        "at": line["at"],
        "attempt": attempt,
        "node": node,
        "metrics": {name: _value(value) for name, value in (line.get("metrics") or {}).items()},
        "progress": progress if isinstance(progress, int | float) and isfinite(progress) else None,
        "step": line.get("step"),
    }


def _value(value: object) -> float | str | bool | None:
    """A metric as JSON can carry it: what is not finite is the text `nan`, `inf` or `-inf`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= _LARGEST:
        return value
    text = value if isinstance(value, str) else str(value) if isinstance(value, int | float) else dumps(value)
    return text[:_LONGEST_TEXT]
