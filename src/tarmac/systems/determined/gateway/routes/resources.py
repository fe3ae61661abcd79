"""`det resources`: slot usage and durations of all attempts, including those of removed runs.

Listed in `application`.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import PlainTextResponse

from tarmac.model.errors import InvalidInput
from tarmac.model.usage import AttemptSpan
from tarmac.systems.determined.gateway.calls import Call, get, seconds_of, time_of
from tarmac.systems.determined.gateway.gateway import experiment_numbers, task_name
from tarmac.systems.determined.gateway.records import ONLY, labels_shown

_ALLOCATION = ("allocation_id", "task_type", "username", "workspace_name", "resource_pool", "slots")
_RAW = ("experiment_id", "kind", "username", "labels", "slots")
_TIMES = ("start_time", "end_time", "seconds")
_AGGREGATED = ("aggregation_type", "aggregation_key", "date", "seconds")
_MONTHLY = "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_MONTHLY"
_MOST_PERIODS = 3_660

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Slots that an attempt held, with their names in Determined."""

    allocation: str
    experiment: int
    user: str
    labels: tuple[str, ...]
    pool: str
    slots: int
    start: str | None
    end: str | None
    seconds: float


def _usages(call: Call) -> list[Usage]:
    """The usage of attempts within the requested time range, by start time."""
    within, gateway = _range(call, "timestamp_after", "timestamp_before"), call.gateway
    spans = _spans(call, within)
    runs = gateway.service.plane.control.store.load_runs(list(dict.fromkeys(each.run_id for each in spans)))
    trials = {run.id: run.spec.trial for run in runs.values()}
    ids = {run_id: trial.experiment if trial is not None else run_id for run_id, trial in trials.items()}
    numbers = experiment_numbers(gateway, list(dict.fromkeys(ids.values())))
    found = []
    for each in spans:
        number = numbers.get(ids.get(each.run_id, ""), 0)
        start, end, seconds = _times(call, each, within)
        run = runs.get(each.run_id)
        found.append(
            Usage(
                allocation=f"{task_name(number, each.run_id)}.{each.attempt}",
                experiment=number,
                user=each.user,
                labels=tuple(labels_shown(run.spec)) if run is not None else (),
                pool=each.pool,
                slots=each.slots,
                start=start,
                end=end,
                seconds=seconds,
            )
        )
    return found


def _allocations(call: Call) -> PlainTextResponse:
    rows = (
        (each.allocation, "TRIAL", each.user, ONLY, each.pool, each.slots, each.start, each.end, each.seconds)
        for each in _usages(call)
    )
    return _table((*_ALLOCATION, *_TIMES), rows)


def _raw(call: Call) -> PlainTextResponse:
    rows = (
        (
            *(each.experiment, "training", each.user, ",".join(each.labels), each.slots),
            *(each.start, each.end, each.seconds),
        )
        for each in _usages(call)
    )
    return _table((*_RAW, *_TIMES), rows)


def _raw_json(call: Call) -> Any:
    return {
        "resourceEntries": [
            {
                "kind": "training",
                "startTime": each.start,
                "endTime": each.end,
                "experimentId": each.experiment,
                "username": each.user,
                "labels": list(each.labels),
                "seconds": each.seconds,
                "slots": each.slots,
            }
            for each in _usages(call)
        ]
    }


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
    store = call.gateway.service.plane.control.store
    return sorted(store.attempt_spans(*within), key=lambda each: (each.begin, each.run_id))


def _times(call: Call, span: AttemptSpan, within: Range) -> tuple[str | None, str | None, float]:
    begin = max(span.begin, within[0])
    end = min(call.gateway.service.clock.now() if span.end is None else span.end, within[1])
    return time_of(begin), time_of(end), max(0.0, end - begin)


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


_BASES = ("/resources/allocation", "/api/v1/resources/allocation")

ROUTES = (
    get(f"{_BASES[0]}/allocations-csv", _allocations),
    get(f"{_BASES[0]}/raw", _raw),
    get(f"{_BASES[1]}/raw", _raw_json),
    get(f"{_BASES[0]}/aggregated", _aggregated),
    get(f"{_BASES[1]}/aggregated", _aggregated_json),
)
