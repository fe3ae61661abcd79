"""Numbers of many trials as short texts, because the state of a search is written at each of its changes.

Used by `searching` and the methods. Little-endian, in base 64: the same on every machine.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable

_NUMBER_BYTES = 8
_TRIAL_BYTES = 4


def pack_numbers(values: Collection[float]) -> str:
    """Encode floating-point numbers exactly."""
    return b64encode(struct.pack(f"<{len(values)}d", *values)).decode()


def unpack_numbers(text: str) -> list[float]:
    """The inverse of `pack_numbers`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _NUMBER_BYTES}d", data))


def pack_trials(trials: Iterable[int]) -> str:
    """Encode numbers of trials, or other whole numbers from 0, below 2**32."""
    values = tuple(trials)
    return b64encode(struct.pack(f"<{len(values)}I", *values)).decode()


def unpack_trials(text: str) -> list[int]:
    """The inverse of `pack_trials`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _TRIAL_BYTES}I", data))
