"""Metrics as event files that TensorBoard reads. Called by `tarmac metrics --tensorboard`.

The format is public and small: records with masked CRC-32C checksums, each an `Event` message of protocol
buffers of which scalars need few fields. So neither TensorBoard nor protobuf has to be installed.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from tarmac import api

FILE_NAME = "events.out.tfevents.0000000000.tarmac"
"""Always the same name: a new file replaces the one before."""

_VERSION = b"brain.Event:2"
_POLYNOMIAL = 0x82F63B78


def write_events(directory: Path, series: Iterable[api.MetricSeries]) -> Path:
    """Write the points of series, each tagged `group/name`, into one event file; return its path.

    Points without a step are numbered from 0. Raises OSError; an earlier file then stays.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE_NAME
    draft = path.with_name(f".{FILE_NAME}.draft")
    with draft.open("wb") as file:
        for record in _records(series):
            file.write(record)
    return draft.replace(path)


def _records(series: Iterable[api.MetricSeries]) -> Iterator[bytes]:
    yield _record(_double(1, 0.0) + _bytes(3, _VERSION))
    for each in series:
        points = each.points
        if points is None:
            continue
        tag = f"{each.group}/{each.name}" + (f"/rank{each.rank}" if each.rank else "")
        columns = zip(points.steps, points.times, points.values, strict=True)
        for number, (step, at, value) in enumerate(columns):
            scalar = _bytes(1, tag.encode()) + _float(2, float(value))
            place = number if step is None else step
            yield _record(_double(1, at) + _whole(2, place) + _bytes(5, _bytes(1, scalar)))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc32c(length) + data + _masked_crc32c(data)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # too large for the four bytes of TensorBoard
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _varint(field << 3 | 5) + packed


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _table() -> tuple[int, ...]:
    rows = []
    for number in range(256):
        row = number
        for _ in range(8):
            row = row >> 1 ^ (_POLYNOMIAL if row & 1 else 0)
        rows.append(row)
    return tuple(rows)


_TABLE = _table()


def _masked_crc32c(data: bytes) -> bytes:
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    checksum ^= 0xFFFFFFFF
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)
