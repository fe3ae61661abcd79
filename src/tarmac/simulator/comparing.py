"""Plays several settings, each in a process of its own, and collects their results.

Called by `tarmac simulate` and the benchmark.
"""

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from mmap import mmap
from multiprocessing import get_context

from tarmac.model.cluster import Cluster
from tarmac.simulator.jobrows import Row, rows
from tarmac.simulator.jobs import Trace
from tarmac.simulator.measures import Measures, measures
from tarmac.simulator.playing import Play, Progress, Rules
from tarmac.simulator.record import Record
from tarmac.simulator.shapes import slots_of

_STEPS = 480
_REPORT_EVERY_S = 0.2
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Averages over steps of equal length: waiting jobs, and the share of all slots that was held."""

    begins_at: float
    step_s: float
    queued: tuple[float, ...]
    utilisation: tuple[float, ...]


def share_series(record: Record, slots: int, steps: int = _STEPS) -> _Series:
    times = record.times
    span_s = times[-1] - times[0] if times else 0.0
    if span_s <= 0:
        return _Series(begins_at=times[0] if times else 0.0, step_s=0.0, queued=(), utilisation=())
    step_s = span_s / steps
    return _Series(
        begins_at=times[0],
        step_s=step_s,
        queued=_averages(record, record.queued, step_s, steps),
        utilisation=tuple(
            used / max(1, slots) for used in _averages(record, record.busy_slots, step_s, steps)
        ),
    )


def _averages(record: Record, values: Iterable[int], step_s: float, steps: int) -> tuple[float, ...]:
    """The time average of a value within each step; each value holds until the next time."""
    times = record.times
    sums = [0.0] * steps
    begin = times[0]
    for at, after, value in zip(times, times[1:], values, strict=False):
        if not value:
            continue
        first = min(int((at - begin) / step_s), steps - 1)
        last = min(int((after - begin) / step_s), steps - 1)
        if first == last:
            sums[first] += value * (after - at)
            continue
        sums[first] += value * (begin + (first + 1) * step_s - at)
        for step in range(first + 1, last):
            sums[step] += value * step_s
        sums[last] += value * (after - begin - last * step_s)
    return tuple(total / step_s for total in sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A play to be made: its jobs, its cluster and its rules, under a unique `label`.

    With `each_job`, its result has a row for each job.
    """

    label: str
    trace: Trace
    cluster: Cluster
    rules: Rules
    each_job: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """A job that could never start, and why."""

    job: str
    slots: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a play. `complete` is false if it was interrupted: it then covers the time until then."""

    measures: Measures
    series: _Series
    never_fits: tuple[NeverFits, ...]
    complete: bool
    wall_s: float
    rows: tuple[Row, ...] = ()


def play_all(
    settings: Sequence[Setting],
    *,
    workers: int,
    interruption: mmap | None = None,
    progress: Progress = lambda _ended, _all: None,
) -> list[Result]:
    """The result of each setting, in order; `workers` plays run at once (1: in this process).

    All plays end once the byte in `interruption`, shared memory, is not 0; those not yet begun at once.
    `progress` is called with the number of ended jobs in all plays together, and the number of all jobs.
    """
    ended = memoryview(mmap(-1, _COUNT_BYTES * len(settings))).cast("q")
    of_all = sum(len(setting.trace.jobs) for setting in settings)

    def play_one(number: int, report: Callable[[], None]) -> Result:
        def note(count: int, _all: int) -> None:
            ended[number] = count
            report()

        return play(settings[number], note, stop=lambda: interruption is not None and interruption[0] != 0)

    def report() -> None:
        progress(sum(ended), of_all)

    numbers = range(len(settings))
    if workers == 1 or len(settings) == 1:
        return [play_one(number, report) for number in numbers]
    at_once = min(workers, len(settings))
    with ProcessPoolExecutor(at_once, get_context("fork"), _begin_process, (play_one,)) as pool:
        plays = [pool.submit(_play_in_process, number) for number in numbers]
        while wait(plays, timeout=_REPORT_EVERY_S).not_done:
            report()
    report()
    return [each.result() for each in plays]


_play_one: Callable[[int, Callable[[], None]], Result]
"""In a process of plays: inherited from its parent, as traces are large."""


def _begin_process(play_one: Callable[[int, Callable[[], None]], Result]) -> None:
    global _play_one  # noqa: PLW0603 - a process of its own
    _play_one = play_one
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal


def _play_in_process(number: int) -> Result:
    return _play_one(number, lambda: None)


def play(
    setting: Setting,
    progress: Progress = lambda _ended, _all: None,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Play one setting in this process, to its end or until `stop` returns true."""
    began = time.perf_counter()
    slots = slots_of(setting.cluster)
    game = Play(setting.trace.jobs, setting.cluster, setting.rules)
    record = game.run(progress, stop=stop)
    return Result(
        measures=measures(
            record, slots, game.estimates, game.promises, renting=setting.rules.renting is not None
        ),
        series=share_series(record, slots),
        never_fits=tuple(
            NeverFits(job=record.jobs[number].name, slots=record.jobs[number].slots, reason=reason)
            for number, reason in record.never_fits.items()
        ),
        complete=record.complete,
        wall_s=time.perf_counter() - began,
        rows=rows(record, setting.rules) if setting.each_job else (),
    )
