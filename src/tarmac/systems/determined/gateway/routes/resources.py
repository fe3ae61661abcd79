"""`det resources`: slot usage and durations of all attempts, including those of removed runs.

Listed in `application`.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from starlette.responses import PlainTextResponse

from tarmac.control.permissions import may_see
from tarmac.model.errors import InvalidInput
from tarmac.model.people.usage import AttemptSpan
from tarmac.systems.determined.gateway.calls import Call, Route, seconds_of, time_of
from tarmac.systems.determined.gateway.changing import camel
from tarmac.systems.determined.gateway.gateway import experiment_id, task_name
from tarmac.systems.determined.gateway.records import labels_shown
from tarmac.systems.determined.reader import NO_PROJECT

_TIMES = ("start_time", "end_time", "seconds")
_ALLOCATION = ("allocation_id", "task_type", "username", "workspace_name", "resource_pool", "slots", *_TIMES)
_RAW = ("experiment_id", "kind", "username", "labels", "slots", *_TIMES)
_AGGREGATED = ("aggregation_type", "aggregation_key", "date", "seconds")
_MONTHLY = "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_MONTHLY"
_MOST_PERIODS = 3_660

Range = tuple[float, float]


def _usages(call: Call) -> Iterator[dict[str, Any]]:
    """Determined's columns of the attempts that held slots within the requested range, by start time."""
    within, gateway = _range(call, "timestamp_after", "timestamp_before"), call.gateway
    spans = _spans(call, within)
    runs = gateway.store.load_runs(list(dict.fromkeys(each.run_id for each in spans)))
    ids = {run.id: experiment_id(run) for run in runs.values()}
    numbers = gateway.experiment_numbers(list(dict.fromkeys(ids.values())))
    for each in spans:
        number, run = numbers.get(ids.get(each.run_id, ""), 0), runs.get(each.run_id)
        begin = max(each.begin, within[0])
        end = min(gateway.service.clock.now() if each.end is None else each.end, within[1])
        yield {
            "allocation_id": f"{task_name(number, each.run_id)}.{each.attempt}",
            "experiment_id": number,
            "task_type": "TRIAL",
            "kind": "training",
            "username": each.user,
            "labels": labels_shown(run.spec) if run is not None else [],
            "workspace_name": NO_PROJECT,
            "resource_pool": each.pool,
            "slots": each.slots,
            "start_time": time_of(begin),
            "end_time": time_of(end),
            "seconds": max(0.0, end - begin),
        }


def _used(call: Call, *, columns: Sequence[str]) -> PlainTextResponse:
    rows = (each | {"labels": ",".join(each["labels"])} for each in _usages(call))
    return _table(columns, ([row[name] for name in columns] for row in rows))


def _raw_json(call: Call) -> Any:
    return {"resourceEntries": [{camel(name): each[name] for name in _RAW} for each in _usages(call)]}


def _aggregated(call: Call) -> PlainTextResponse:
    rows: list[Sequence[Any]] = []
    for day, spans, total in _periods(call):
        rows.append(("total", "total", day, total))
        for kind, sums in spans.items():
            rows += [(kind, key, day, seconds) for key, seconds in sorted(sums.items())]
    return _table(_AGGREGATED, rows)


def _aggregated_json(call: Call) -> Any:
    monthly = call.text("period") == _MONTHLY
    return {
        "resourceEntries": [
            {
                "periodStart": day,
                "period": _MONTHLY if monthly else _MONTHLY.replace("MONTHLY", "DAILY"),
                "seconds": total,
                "byUsername": spans["username"],
                "byResourcePool": spans["resource_pool"],
                "byExperimentLabel": {},
                "byAgentLabel": {},
            }
            for day, spans, total in _periods(call)
        ]
    }


def _periods(call: Call) -> Iterator[tuple[str, dict[str, dict[str, float]], float]]:
    """Slot-seconds of each day, or month, by user and pool: the first day, the sums, and their total."""
    within = _range(call, "start_date", "end_date", whole_days=True)
    every = _spans(call, within)
    for begin, end in _cut(within, monthly=call.text("period") == _MONTHLY):
        sums: dict[str, dict[str, float]] = {
            "username": defaultdict(float),
            "resource_pool": defaultdict(float),
        }
        for each in every:
            seconds = each.slot_s(begin, min(end, call.gateway.service.clock.now()))
            if seconds > 0:
                sums["username"][each.user] += seconds
                sums["resource_pool"][each.pool] += seconds
        yield _day(begin).strftime("%Y-%m-%d"), sums, sum(sums["username"].values())


def _cut(within: Range, *, monthly: bool) -> Iterator[Range]:
    begin, count = within[0], 0
    while begin < within[1]:
        day = _day(begin)
        following = (
            (day.replace(day=1) + timedelta(days=32)).replace(day=1) if monthly else day + timedelta(1)
        )
        yield begin, min(following.timestamp(), within[1])
        begin, count = following.timestamp(), count + 1
        if count > _MOST_PERIODS:
            raise InvalidInput(f"more than {_MOST_PERIODS:,} days were asked for")


def _day(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _spans(call: Call, within: Range) -> list[AttemptSpan]:
    """The attempts that held slots within a time range, by start time."""
    store = call.store
    found = (each for each in store.attempt_spans(*within) if may_see(call.actor, each))
    return sorted(found, key=lambda each: (each.begin, each.run_id))


def _range(call: Call, first: str, last: str, *, whole_days: bool = False) -> Range:
    begin, end = (call.text(name) for name in (first, last))
    if begin is None or end is None:
        raise InvalidInput(f"{first} and {last} are expected: from when, until when")
    day_s = 86_400.0 if whole_days else 0.0  # the last date is included
    within = seconds_of(begin), seconds_of(end) + day_s
    if within[0] >= within[1]:
        raise InvalidInput(f"{first} must lie before {last}")
    return within


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> PlainTextResponse:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return PlainTextResponse(text.getvalue(), media_type="text/csv")


_BASE = "/resources/allocation"

ROUTES = (
    Route("GET", f"{_BASE}/allocations-csv", partial(_used, columns=_ALLOCATION)),
    Route("GET", f"{_BASE}/raw", partial(_used, columns=_RAW)),
    Route("GET", f"/api/v1{_BASE}/raw", _raw_json),
    Route("GET", f"{_BASE}/aggregated", _aggregated),
    Route("GET", f"/api/v1{_BASE}/aggregated", _aggregated_json),
)
