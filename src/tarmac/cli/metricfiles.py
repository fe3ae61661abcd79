"""Writes metrics for other programs: CSV, and event files for TensorBoard. Called by `tarmac metrics`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.cli.output import remark
from tarmac.client.tensorboard import write_events
from tarmac.model.errors import Unavailable

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client

COLUMNS = ("run", "run_name", "group", "name", "rank", "step", "time", "value")


def every_point(client: Client, found: Sequence[api.MetricSeries]) -> Iterator[api.MetricSeries]:
    """The same series with all their points, requested one by one."""
    for series in found:
        whole = client.metrics(
            series.run,
            names=(series.name,),
            group=series.group,
            points=max(2, series.count),
            every_rank=True,
        )
        yield from (each for each in whole if each.rank == series.rank)


def write_csv(found: Iterable[api.MetricSeries]) -> None:
    """Write a line for each point to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for series in found:
        points = series.points
        if points is None:
            continue
        named = [series.run, series.run_name, series.group, series.name, series.rank]
        for step, at, value in zip(points.steps, points.times, points.values, strict=True):
            writer.writerow([*named, "" if step is None else step, at, value])


def write_tensorboard(found: Iterable[api.MetricSeries], directory: str) -> None:
    """Write an event file for each run, in its own directory. Raises Unavailable if one cannot be written."""
    for run, series in groupby(found, key=lambda each: f"{each.run_name}-{each.run}"):
        try:
            path = write_events(Path(directory) / run, series)
        except OSError as error:
            raise Unavailable(f"--tensorboard {directory!r}: {error.strerror or error}") from None
        remark(f"written: {path}")
