"""Plays several settings, each in a process of its own, and collects their results.

Called by `tarmac simulate` and the benchmark.
"""

import signal
import time
from collections.abc import Iterable, MutableSequence, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawArray, RawValue

from tarmac.model.cluster import Cluster
from tarmac.simulator.jobrows import Row, rows
from tarmac.simulator.jobs import Trace
from tarmac.simulator.measures import Measures, measures
from tarmac.simulator.playing import Play, Progress, Rules
from tarmac.simulator.record import Record
from tarmac.simulator.shapes import slots_of

_STEPS = 480


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


class Interruption:
    """A request to end all plays, which they check between two events, also in processes of their own."""

    def __init__(self) -> None:
        self._flag = RawValue("b", 0)

    def __call__(self) -> bool:
        return bool(self._flag.value)

    def request(self) -> None:
        """Ask all plays to end."""
        self._flag.value = 1


def play_all(
    settings: Sequence[Setting],
    *,
    workers: int,
    interruption: Interruption | None = None,
    progress: Progress = lambda _ended, _all: None,
) -> list[Result]:
    """The result of each setting, in order; `workers` plays run at once (1: in this process).

    `progress` is called with the number of ended jobs in all plays together, and the number of all jobs.
    Plays that have not begun when an interruption is requested end at once.
    """
    stop, ended = interruption or Interruption(), RawArray("q", len(settings))
    count = sum(len(setting.trace.jobs) for setting in settings)

    def report(number: int, jobs: int) -> None:
        ended[number] = jobs
        progress(sum(ended), count)

    if workers == 1 or len(settings) == 1:
        return [
            play(setting, stop, lambda jobs, _all, number=number: report(number, jobs))  # type: ignore[misc]
            for number, setting in enumerate(settings)
        ]
    shared = (settings, stop, ended)
    with ProcessPoolExecutor(workers, get_context("fork"), _begin_process, shared) as pool:
        plays = [pool.submit(_play_apart, number) for number in range(len(settings))]
        try:
            while wait(plays, timeout=0.2).not_done:
                progress(sum(ended), count)
            return [each.result() for each in plays]
        except BrokenProcessPool:
            raise ChildProcessError(
                "a process of the plays was killed, or ran out of memory"
            ) from None
        except BaseException:
            stop.request()  # the others need not go on
            raise


def play(setting: Setting, interruption: Interruption, progress: Progress) -> Result:
    """Play one setting in this process."""
    began = time.perf_counter()
    slots = slots_of(setting.cluster)
    game = Play(setting.trace.jobs, setting.cluster, setting.rules)
    record = game.run(progress, stop=interruption)
    return Result(
        measures=measures(record, slots, game.estimates, game.promises),
        series=share_series(record, slots),
        never_fits=tuple(
            NeverFits(job=record.jobs[number].name, slots=record.jobs[number].slots, reason=reason)
            for number, reason in record.never_fits.items()
        ),
        complete=record.complete,
        wall_s=time.perf_counter() - began,
        rows=rows(record, setting.rules) if setting.each_job else (),
    )


_shared: list[tuple[Sequence[Setting], Interruption, MutableSequence[int]]] = []
"""In a process of plays: the settings, the request to end, and the ended jobs of each play."""


def _begin_process(
    settings: Sequence[Setting], interruption: Interruption, ended: MutableSequence[int]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal
    _shared.append((settings, interruption, ended))


def _play_apart(number: int) -> Result:
    [(settings, interruption, ended)] = _shared

    def report(jobs: int, _all: int) -> None:
        ended[number] = jobs

    return play(settings[number], interruption, report)
