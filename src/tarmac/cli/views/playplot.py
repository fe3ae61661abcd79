"""Draws plays: the queue and the use of the cluster over time, one line per play.

Called by `tarmac simulate --plot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.plotting import COLOURS, picture
from tarmac.simulator.comparing import Result, Setting
from tarmac.simulator.playing import EPOCH_S, NO_DATES_S
from tarmac.simulator.shapes import shape_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY_S = 86_400.0
HOUR_S = 3_600.0


def plot(played: Sequence[tuple[Setting, Result]], path: Path) -> None:
    """Draw the plays into a file; a column of two panels for each trace. Raises OSError."""
    parts = [list(part) for _, part in groupby(played, key=lambda item: id(item[0].trace))]
    with picture(path, 7.2 * len(parts), 5.6) as figure:
        panels = figure.subplots(2, len(parts), sharex="col", squeeze=False)
        for column, part in enumerate(parts):
            _draw(part, panels[0][column], panels[1][column])


def _draw(part: Sequence[tuple[Setting, Result]], above: Axes, below: Axes) -> None:
    setting = part[0][0]
    trace = setting.trace
    dated = trace.jobs[0].submitted_at >= NO_DATES_S
    longest_s = max((len(result.series.queued) * result.series.step_s for _, result in part), default=0.0)
    unit_s, unit = (DAY_S, "days") if longest_s > 3 * DAY_S else (HOUR_S, "hours")
    for number, (item, result) in enumerate(part):
        series = result.series
        shifts = [(index + 0.5) * series.step_s for index in range(len(series.queued))]
        at: list[Any] = (
            [datetime.fromtimestamp(series.begins_at + shift, tz=UTC) for shift in shifts]
            if dated
            else [(series.begins_at + shift - EPOCH_S) / unit_s for shift in shifts]
        )
        label = item.label + ("" if result.complete else " (partial)")
        colour = COLOURS[number % len(COLOURS)]
        above.plot(at, series.queued, color=colour, linewidth=1.1, label=label)
        below.plot(at, [share * 100 for share in series.utilisation], color=colour, linewidth=1.1)
    _dress(above, below)
    above.set_title(f"{trace.name}: {len(trace.jobs):,} jobs on {shape_text(setting.cluster)}", loc="left")
    below.set_xlabel("date (UTC)" if dated else f"{unit} since the trace began")
    if dated:
        _date_axis(below)


def _dress(above: Axes, below: Axes) -> None:
    above.set_ylabel("jobs waiting")
    above.set_ylim(bottom=0)
    above.legend(frameon=False, loc="upper right")
    below.set_ylabel("slots held, %")
    below.set_ylim(0, 102)
    for axes in (above, below):
        axes.margins(x=0.01)


def _date_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
