"""Stores the reports of runs exactly once, as one engine shows them. Used by the reconcile pass.

A subscriber that acts on a metric registers in `ControlState.metric_subscribers`: `select` is called for
every stored report, under no lock, and must be pure; its result is stored as a `MetricEvent` in the
transaction of the report. After the transaction `notify` is called as a hint: the events stay in the store
until the subscriber has handled them and removes them (`MetricStore.events`, `forget_events`), so a crash at
any point neither loses nor repeats an event that is handled by its id.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from json import dumps
from math import isfinite
from typing import Any

from tarmac.model.abilities import ReadsReports, ReportPiece
from tarmac.model.actor import Lease
from tarmac.model.codec import common
from tarmac.model.metrics import TRAINING, MetricEvent, MetricReport, MetricStore, ReportBatch
from tarmac.model.run import Attempt, Run
from tarmac.node.files import untrusted

LOOK_BYTES = 512 * 1024
"""The maximum read from each file at one look while the run continues."""

ENDING_ROUNDS = 8
"""The number of such pieces read of an ended attempt before the others get their turn again."""

ATTEMPTS_AT_ONCE = 32
"""The number of attempts in one transaction: their pieces have to fit into memory."""

LONGEST_NAME = 200
LONGEST_GROUP = 64
LONGEST_TEXT = 1000
MOST_NAMES = 1000
"""The maximum of names in one report; further names are ignored."""

_LATEST = 1e12
_LARGEST = 2**63 - 1
_HIGHEST_RANK = 2**31 - 1
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class MetricSubscriber:
    """`select` returns the part of a report that becomes an event (None: nothing); `notify` signals new
    events.
    """

    select: Callable[[Run, MetricReport], Mapping[str, Any] | None]
    notify: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ReportSink:
    """The store of reports, the subscribers to them by name, and the lease of the server."""

    store: MetricStore
    subscribers: Mapping[str, MetricSubscriber]
    lease: Lease | None


class MetricIntake:
    """The position in the reports of one engine's live attempts. Used by one thread."""

    def __init__(self, engine: ReadsReports) -> None:
        self._engine = engine
        self._positions: dict[str, dict[str, int]] = {}

    def take(self, attempts: Sequence[tuple[Run, Attempt]], sink: ReportSink) -> set[str]:
        """Store the next piece of each of these attempts; returns the ids of those that had one."""
        taken: set[str] = set()
        items = iter(attempts)
        while some := tuple(islice(items, ATTEMPTS_AT_ONCE)):
            pieces = self._pieces(attempt.id for _, attempt in some)
            unknown = [pair for pair in some if pair[1].id in pieces.keys() - self._positions.keys()]
            if unknown:  # without a report, most runs cost the store no question
                self._learn(sink.store, unknown)
                pieces = self._pieces(attempt.id for _, attempt in some if attempt.id in self._positions)
            if pieces:
                self._keep([pair for pair in some if pair[1].id in pieces], pieces, sink)
                taken.update(pieces)
        return taken

    def take_rest(self, attempts: Sequence[tuple[Run, Attempt]], sink: ReportSink) -> set[str]:
        """Store the rest of ended attempts; returns the ids of those that may have more."""
        left = list(attempts)
        for _ in range(ENDING_ROUNDS):
            more = self.take(left, sink)
            left = [pair for pair in left if pair[1].id in more]
            if not left:
                break
        return {attempt.id for _, attempt in left}

    def forget_all_but(self, attempt_ids: Iterable[str]) -> None:
        """Forget attempts that are over."""
        for attempt_id in self._positions.keys() - set(attempt_ids):
            del self._positions[attempt_id]

    def _pieces(self, attempt_ids: Iterable[str]) -> Mapping[str, Sequence[ReportPiece]]:
        """The next pieces of these attempts, from the beginning where the position is unknown."""
        positions = {attempt_id: self._positions.get(attempt_id, {}) for attempt_id in attempt_ids}
        return self._engine.reports(positions, limit_bytes=LOOK_BYTES)

    def _learn(self, store: MetricStore, unknown: Sequence[tuple[Run, Attempt]]) -> None:
        """Learn the stored position of each attempt."""
        for _, attempt in unknown:
            self._positions[attempt.id] = {}
        ids = {(attempt.run_id, attempt.number): attempt.id for _, attempt in unknown}
        for (run_id, number, node), end in store.positions({run.id for run, _ in unknown}).items():
            if (run_id, number) in ids:
                self._positions[ids[run_id, number]][node] = end

    def _keep(
        self,
        attempts: Sequence[tuple[Run, Attempt]],
        pieces: Mapping[str, Sequence[ReportPiece]],
        sink: ReportSink,
    ) -> None:
        batches = [
            ReportBatch(
                run_id=run.id,
                attempt=attempt.number,
                **common(ReportBatch, piece),
                reports=reports,
                events=tuple(events_of(run, attempt, reports, sink.subscribers)),
            )
            for run, attempt in attempts
            for piece in pieces[attempt.id]
            for reports in [reports_of(piece.content)]
        ]
        known = {attempt.id: self._positions.pop(attempt.id) for _, attempt in attempts}
        # Read again from the store unless all of it was taken: this step may not return, or another process
        # may have taken it.
        taken = sink.store.take(batches, lease=sink.lease)
        stale = {
            (batch.run_id, batch.attempt) for batch, done in zip(batches, taken, strict=True) if not done
        }
        for _, attempt in attempts:
            if (attempt.run_id, attempt.number) not in stale:
                ends = {piece.node: piece.end for piece in pieces[attempt.id]}
                self._positions[attempt.id] = known[attempt.id] | ends
        for name in sorted({event.subscriber for batch in batches for event in batch.events}):
            sink.subscribers[name].notify()


def reports_of(content: bytes) -> tuple[MetricReport, ...]:
    """The reports in whole lines; invalid lines are ignored."""
    found = (_report(line) for line in content.split(b"\n") if 0 < len(line) <= untrusted.LONGEST_LINE_BYTES)
    return tuple(report for report in found if report is not None)


def events_of(
    run: Run, attempt: Attempt, reports: Sequence[MetricReport], subscribers: Mapping[str, MetricSubscriber]
) -> Iterator[MetricEvent]:
    """The events that reports cause for subscribers of metrics."""
    for report in reports if subscribers else ():
        for name, subscriber in subscribers.items():
            body = subscriber.select(run, report)
            if body is not None:
                yield MetricEvent(
                    subscriber=name,
                    run_id=run.id,
                    attempt=attempt.number,
                    at=report.at,
                    step=report.step,
                    body=body,
                )


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
