"""Draws plays: the queue and the use of the cluster over time, one line per play.

Called by `tarmac simulate --plot`. The plotting library is an extra, imported when something is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files import untrusted
from tarmac.simulator.comparing import Result, Setting
from tarmac.simulator.jobrows import check_path
from tarmac.simulator.playing import EPOCH_S, NO_DATES_S
from tarmac.simulator.shapes import shape_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".png", ".svg")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
"""The palette of Okabe and Ito, which people with colour blindness can distinguish."""

DAY_S = 86_400.0
HOUR_S = 3_600.0


def require_plotting(file: str) -> None:
    """Raise InvalidInput if `file` cannot be drawn, and Unavailable without matplotlib, before any play."""
    if Path(file).suffix.lower() not in KINDS:
        raise InvalidInput(f"--plot {file!r}: name a file that ends in {' or '.join(KINDS)}")
    check_path("--plot", file)
    if find_spec("matplotlib") is None:
        raise Unavailable(
            "--plot needs matplotlib, and it is not installed here",
            hint=f"install matplotlib for {sys.executable}",
        )


def plot(played: Sequence[tuple[Setting, Result]], path: Path) -> None:
    """Replace a file by a picture of the plays, a column of two panels for each trace; raises OSError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    parts = [list(part) for _, part in groupby(played, key=lambda item: id(item[0].trace))]
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "tarmac"}):
        figure = Figure(figsize=(7.2 * len(parts), 5.6), layout="constrained")
        panels = figure.subplots(2, len(parts), sharex="col", squeeze=False)
        for column, part in enumerate(parts):
            _draw(part, panels[0][column], panels[1][column])
        dateless: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        picture = BytesIO()
        figure.savefig(picture, format=path.suffix[1:].lower(), dpi=150, metadata=dateless)
    untrusted.replace(str(path), picture.getvalue())


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
        axes.grid(visible=True, color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.margins(x=0.01)


def _date_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
