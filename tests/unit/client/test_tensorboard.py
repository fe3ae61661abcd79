"""Event files are as TensorBoard reads them."""

from __future__ import annotations

import struct
from math import isinf, isnan
from pathlib import Path
from typing import Any

import pytest

from tarmac import api
from tarmac.client.tensorboard import FILE_NAME, write_events


def series(name: str, steps: list[int | None], values: list[Any], *, rank: int = 0) -> api.MetricSeries:
    times = [1000.0 + number for number in range(len(steps))]
    return api.MetricSeries(
        run="r1",
        run_name="run",
        group="validation",
        name=name,
        rank=rank,
        count=len(values),
        last=values[-1],
        last_step=steps[-1],
        last_at=times[-1],
        low=None,
        low_step=None,
        high=None,
        high_step=None,
        points=api.MetricPoints(steps=steps, times=times, values=values, total=len(steps)),
    )


def test_records_are_framed_and_begin_with_the_version(tmp_path: Path) -> None:
    """The checksums are those of the documented format: of the first record they are known."""
    content = write_events(tmp_path / "run", [series("loss", [3], [0.5])]).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    assert content[12 : 12 + length].endswith(b"\x1a\x0dbrain.Event:2")
    assert content[8:12] == bytes.fromhex("a37f4b22"), "of a length of 24 bytes"
    assert b"validation/loss" in content
    assert b"\x15" + struct.pack("<f", 0.5) in content


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_events(tmp_path, [series("loss", [1, 2], [1.0, 2.0])])
    path = write_events(tmp_path, [])
    assert [found.name for found in tmp_path.iterdir()] == [FILE_NAME] == [path.name]
    assert b"loss" not in path.read_bytes()


def test_the_real_tensorboard_reads_every_point(tmp_path: Path) -> None:
    """Skipped where the package is not installed."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    values = [0.25, "nan", "inf", 1e300]
    write_events(
        tmp_path, [series("loss", [1, 5, 2**40, 2**62], values), series("acc", [None, None], [1, 2], rank=3)]
    )
    read = reading.EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    read.Reload()
    loss, acc = read.Scalars("validation/loss"), read.Scalars("validation/acc/rank3")
    assert [point.step for point in loss] == [1, 5, 2**40, 2**62]
    assert [point.wall_time for point in loss] == [1000.0, 1001.0, 1002.0, 1003.0]
    assert loss[0].value == 0.25
    assert isnan(loss[1].value)
    assert isinf(loss[2].value)
    assert isinf(loss[3].value)
    assert [(point.step, point.value) for point in acc] == [(0, 1.0), (1, 2.0)]
