"""Parses the lines of workers into reports; arbitrary lines are harmless.

Called by the reconcile pass. Pure.
"""

from __future__ import annotations

from json import dumps
from math import isfinite
from typing import Any

from tarmac.model.metrics import TRAINING, MetricReport
from tarmac.node.files import untrusted

LONGEST_NAME = 200
LONGEST_GROUP = 64
LONGEST_TEXT = 1000
MOST_NAMES = 1000
"""The maximum of names in one report; further names are ignored."""

_LATEST = 1e12
_LARGEST = 2**63 - 1
_HIGHEST_RANK = 2**31 - 1
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})


def reports_of(content: bytes) -> tuple[MetricReport, ...]:
    """The reports in whole lines; invalid lines are ignored."""
    found = (_report(line) for line in content.split(b"\n") if 0 < len(line) <= untrusted.LONGEST_LINE_BYTES)
    return tuple(report for report in found if report is not None)


def _report(line: bytes) -> MetricReport | None:
    try:
        fields = untrusted.parse_object(line)
    except ValueError:
        return None
    at, step, rank = fields.get("at"), fields.get("step"), fields.get("rank", 0)
    group, metrics = fields.get("group", TRAINING), fields.get("metrics") or {}
    if (
        type(at) not in (int, float)
        or not 0 <= at < _LATEST  # type: ignore[operator]
        or type(step) not in (int, type(None))
        or abs(step or 0) > _LARGEST
        or type(rank) is not int
        or not 0 <= rank <= _HIGHEST_RANK
        or not _is_name(group, LONGEST_GROUP)
        or not isinstance(metrics, dict)
    ):
        return None
    values: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, value in list(metrics.items())[:MOST_NAMES]:
        if _is_name(name, LONGEST_NAME):
            _take(name, value, values, texts)
    return MetricReport(
        at=float(at),  # type: ignore[arg-type]
        rank=rank,
        step=step,
        group=group,
        progress=_progress(fields.get("progress")),
        values=values,
        texts=texts,
    )


def _take(name: str, value: Any, values: dict[str, float], texts: dict[str, str]) -> None:
    """Store a metric as a number if it is one, otherwise as a text; None is ignored."""
    if value is None:
        return
    if isinstance(value, str) and value not in _NOT_FINITE:
        texts[name] = value[:LONGEST_TEXT]
    elif isinstance(value, (dict, list)):
        texts[name] = dumps(value)[:LONGEST_TEXT]
    else:
        try:
            values[name] = float(value)
        except OverflowError:
            values[name] = float("inf") if value > 0 else float("-inf")


def _is_name(name: object, longest: int) -> bool:
    return isinstance(name, str) and 0 < len(name) <= longest and name.isprintable()


def _progress(value: object) -> float | None:
    is_number = type(value) in (int, float)
    return float(value) if is_number and isfinite(value) and abs(value) <= _LARGEST else None  # type: ignore[arg-type]


def value_text(value: float) -> float | str:
    """A number in JSON form: a non-finite one becomes the text `nan`, `inf` or `-inf`."""
    return value if isfinite(value) else str(value)
