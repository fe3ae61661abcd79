"""Filters and sorts listed experiments and trials by fields of their records.

Called by `routes.experiment_lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tarmac.systems.determined.gateway.calls import Call, whole
from tarmac.systems.determined.gateway.records.written import is_descending

Record = Mapping[str, Any]
Keys = Mapping[str, Callable[[Record], Any]]

_PREFIX = "SORT_BY_"
_AS_LISTED = frozenset({"", "UNSPECIFIED", "ID"})
_GOES_ON = frozenset({"STATE_QUEUED", "STATE_PULLING", "STATE_STARTING", "STATE_RUNNING"})


def _field(name: str) -> Callable[[Record], Any]:
    return lambda record: record[name]


def _validated(name: str) -> Callable[[Record], Any]:
    """A validation metric in a field of a trial."""

    def value(record: Record) -> Any:
        found = record[name]
        return next(iter(found["metrics"]["avgMetrics"].values()), None) if found is not None else None

    return value


def _duration(record: Record) -> float | None:
    if record["endTime"] is None:
        return None
    begin, end = (datetime.fromisoformat(record[name]) for name in ("startTime", "endTime"))
    return (end - begin).total_seconds()


EXPERIMENTS: Keys = {
    "DESCRIPTION": _field("description"),
    "START_TIME": _field("startTime"),
    "END_TIME": _field("endTime"),
    "STATE": _field("state"),
    "NUM_TRIALS": _field("numTrials"),
    "PROGRESS": _field("progress"),
    "USER": _field("username"),
    "NAME": _field("name"),
    "FORKED_FROM": _field("forkedFrom"),
    "RESOURCE_POOL": _field("resourcePool"),
    "SEARCHER_METRIC_VAL": _field("bestTrialSearcherMetric"),
}
TRIALS: Keys = {
    "START_TIME": _field("startTime"),
    "END_TIME": _field("endTime"),
    "STATE": _field("state"),
    "BEST_VALIDATION_METRIC": _validated("bestValidation"),
    "LATEST_VALIDATION_METRIC": _validated("latestValidation"),
    "BATCHES_PROCESSED": _field("totalBatchesProcessed"),
    "DURATION": _duration,
    "RESTARTS": _field("restarts"),
}


def asks_for_records(call: Call) -> bool:
    """Whether the selection requires complete records."""
    by = (call.text("sortBy") or "").removeprefix(_PREFIX)
    return by not in _AS_LISTED or any(call.texts(name) for name in ("states", "labels", "description"))


def chosen(call: Call, records: Sequence[Record], keys: Keys) -> list[Record]:
    """The records with the requested states, labels and description, in the requested order.

    `records` are in the order of their numbers, or in reverse if the request asks for that.
    """
    states, labels = set(call.texts("states")), set(call.texts("labels"))
    if "STATE_ACTIVE" in states:
        states |= _GOES_ON
    text = (call.text("description") or "").lower()
    found = [
        each
        for each in records
        if (not states or each["state"] in states)
        and (not labels or labels & set(each["labels"]))
        and (not text or text in (each["description"] or "").lower())
    ]
    key = keys.get((call.text("sortBy") or "").removeprefix(_PREFIX))
    if key is None:
        return found
    known = [each for each in found if key(each) is not None]
    without = [each for each in found if key(each) is None]
    return sorted(known, key=key, reverse=is_descending(call)) + without


def is_numbered(call: Call, number: int) -> bool:
    """Whether the request selects an experiment by its number."""
    name = "experimentIdFilter"
    included = {whole(name, text) for text in call.texts(f"{name}.incl")}
    excluded = {whole(name, text) for text in call.texts(f"{name}.notIn")}
    return (
        (not included or number in included)
        and number not in excluded
        and all(
            holds(number, call.whole(f"{name}.{bound}"))
            for bound, holds in _BOUNDS.items()
            if call.text(f"{name}.{bound}") is not None
        )
    )


_BOUNDS: Mapping[str, Callable[[int, int], bool]] = {
    "gt": int.__gt__,
    "gte": int.__ge__,
    "lt": int.__lt__,
    "lte": int.__le__,
}
