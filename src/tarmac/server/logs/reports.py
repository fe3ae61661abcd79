"""Reads the reports of a run's workers from its attempt directories. Called by the route for them."""

from collections.abc import Callable
from functools import cache
from json import dumps
from math import isfinite
from typing import Any

from tarmac.api.history_operations import Report
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.errors import Unavailable
from tarmac.model.run import Run
from tarmac.node.attempt.protocol import NODES, REPORTS_FILE, rank_name
from tarmac.node.files.masking import Mask
from tarmac.server.logs.log_files import last_part, parsed, reader

_MOST_BYTES = 1 << 20
"""Maximum bytes of all files of a run: reports are unbounded, and a follower polls every few seconds."""

_SHORTEST_BYTES = 64
"""Less than the size of an SDK report: limits the number of lines read from a number of bytes."""

_LATEST = 1e12
_LARGEST = 2**63 - 1
_LONGEST_TEXT = 1000


def reports_of(
    plane: ControlPlane, actor: Actor, run: Run, mask: Mask, *, limit: int | None = None
) -> tuple[list[Report], bool]:
    """The newest reports of a run, oldest first, and whether older ones are omitted for their size.

    It reads `_MOST_BYTES` of the newest attempts, an equal share from the end of each node's file, and
    returns `limit` of the reports. `mask` hides secrets. Files that are unreachable now are skipped.
    """
    found: list[tuple[int, float, str, dict[str, Any]]] = []
    room_bytes, is_cut = _MOST_BYTES, False
    for attempt in reversed(plane.attempts(actor, run.id)):
        nodes = attempt.allocation.nodes
        read, share_bytes = reader(plane, actor, attempt.id), room_bytes // max(1, len(nodes))
        for rank, node in enumerate(nodes):
            part = node if attempt.native is None else rank_name(rank)  # the name in the attempt's directory
            try:
                content, is_whole = last_part(read, f"{NODES}/{part}/{REPORTS_FILE}", share_bytes)
            except Unavailable:
                break
            room_bytes -= len(content)
            lines = content.rsplit(b"\n", share_bytes // _SHORTEST_BYTES)
            is_cut = is_cut or not is_whole or b"\n" in lines[0]
            objects = (parsed(line) for line in lines if b"\n" not in line)
            found += [(attempt.number, line["at"], node, line) for line in objects if _is_report(line)]
        if is_cut:
            break
    found.sort(key=lambda each: each[:3])
    newest = found[-limit:] if limit is not None else found
    hide = cache(mask.text)
    return [_record(line, number, node, hide) for number, _, node, line in newest], is_cut


def _is_report(line: dict[str, Any]) -> bool:
    """Whether a line has the form that the SDK writes: a worker may write any other line."""
    number = {int, float}
    return (
        type(line.get("at")) in number
        and 0 <= line["at"] < _LATEST
        and type(line.get("step")) in {int, type(None)}
        and abs(line.get("step") or 0) <= _LARGEST
        and type(line.get("progress")) in {int, float, str, type(None)}
        and isinstance(line.get("metrics") or {}, dict)
    )


def _record(line: dict[str, Any], attempt: int, node: str, hide: Callable[[str], str]) -> Report:
    progress = line.get("progress")
    return Report(
        at=line["at"],
        attempt=attempt,
        node=node,
        metrics={hide(name): _value(value, hide) for name, value in (line.get("metrics") or {}).items()},
        progress=progress if isinstance(progress, int | float) and isfinite(progress) else None,
        step=line.get("step"),
    )


def _value(value: object, hide: Callable[[str], str]) -> float | str | bool | None:
    """A metric in JSON: numbers that are not finite become the text `nan`, `inf` or `-inf`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= _LARGEST:
        return value
    text = value if isinstance(value, str) else str(value) if isinstance(value, int | float) else dumps(value)
    return hide(text)[:_LONGEST_TEXT]
