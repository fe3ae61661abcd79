"""Plays several settings, each in a process of its own, and collects their results.

Called by `tarmac simulate` and the benchmark.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

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
    """A request to end all plays, which they check between two events."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self) -> bool:
        return self.requested


def play_all(
    settings: Sequence[Setting],
    *,
    workers: int,
    interruption: Interruption | None = None,
    progress: Progress = lambda _ended, _all: None,
) -> list[Result]:
    """The result of each setting, in order; `workers` plays run at once (1: in this process).

    `progress` is called with the number of ended jobs in all plays together, and the number of all jobs.
    """
    stop = interruption or Interruption()
    tally = _tally(settings, progress)
    if workers == 1 or len(settings) == 1:
        return [play(setting, stop, tally(at)) for at, setting in enumerate(settings)]
    return _Pool(settings, stop, tally).run(workers)


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


Tally = Callable[[int], Progress]
"""The progress function for the play of each number."""


def _tally(settings: Sequence[Setting], progress: Progress) -> Tally:
    """Reports the progress of all plays together."""
    ended, of_all = [0] * len(settings), sum(len(setting.trace.jobs) for setting in settings)

    def of(number: int) -> Progress:
        def report(count: int, _all: int) -> None:
            ended[number] = count
            progress(sum(ended), of_all)

        return report

    return of


class _Pool:
    """Processes of plays, a few at a time."""

    def __init__(self, settings: Sequence[Setting], interruption: Interruption, tally: Tally) -> None:
        self._settings = settings
        self._interruption = interruption
        self._tally = tally
        self._context = multiprocessing.get_context("fork")
        self._waiting = list(enumerate(settings))
        self._playing: dict[Connection, tuple[int, BaseProcess]] = {}
        self._results: dict[int, Result] = {}

    def run(self, workers: int) -> list[Result]:
        """All results; after an interruption, plays not yet begun end at once."""
        interrupted = False
        try:
            while self._waiting or self._playing:
                while self._waiting and len(self._playing) < workers:
                    self._begin(*self._waiting.pop(0))
                for channel in wait(list(self._playing), timeout=0.2):
                    assert isinstance(channel, Connection)
                    self._hear(channel)
                if self._interruption() and not interrupted:
                    interrupted = True
                    self._interrupt()
        finally:
            for _, process in self._playing.values():
                process.kill()
        return [self._results[number] for number in range(len(self._settings))]

    def _begin(self, number: int, setting: Setting) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_play_apart, args=(setting, self._interruption, theirs))
        process.start()
        theirs.close()
        self._playing[ours] = number, process

    def _hear(self, channel: Connection) -> None:
        number, process = self._playing[channel]
        try:
            message = channel.recv()
        except EOFError:
            process.join()
            raise ChildProcessError(f"a play ended by itself, with {process.exitcode}") from None
        if isinstance(message, Result):
            self._results[number] = message
            process.join()
            channel.close()
            del self._playing[channel]
        else:
            self._tally(number)(*message)

    def _interrupt(self) -> None:
        for _, process in self._playing.values():
            if process.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGINT)


def _play_apart(setting: Setting, interruption: Interruption, channel: Connection) -> None:
    """Play in a process of its own, and send progress and result through the channel."""

    def interrupted(_number: int, _frame: object) -> None:
        interruption.requested = True

    signal.signal(signal.SIGINT, interrupted)  # Ctrl-C reaches every process of the terminal, ours twice
    channel.send(play(setting, interruption, lambda ended, count: channel.send((ended, count))))
    channel.close()
