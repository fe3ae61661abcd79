"""Amounts as users write them: durations (`90s`), sizes (`16GiB`), slots with a type (`h100:8`), `2x1`.

Used by the readers of `dialects`; each kind returns the unit that its name ends with.
"""

import re

from tarmac.dialects.kinds import Kind, Misfit, written_number
from tarmac.dialects.located import Scalar
from tarmac.model.resources import Resources
from tarmac.model.spec import Rehearsal

MOST_SLOTS = 100_000
MOST_REHEARSAL_NODES = 100
MOST_REHEARSAL_SLOTS = 64


def duration_s(minimum_s: float = 1.0) -> Kind[float]:
    """A duration of one number and one unit, in seconds."""

    def read(scalar: Scalar) -> float:
        found = _DURATION.fullmatch(scalar.text)
        if found is None:
            raise Misfit(_duration_hint(scalar.text))
        seconds = float(found["amount"]) * SECONDS[found["unit"]]
        if not minimum_s <= seconds <= LONGEST_S:
            raise Misfit(f"at least {minimum_s:g}s and at most 3650d")
        return seconds

    return Kind("a duration such as 90s, 10m, 2h or 1d", read, write=written_duration)


def _size_bytes(scalar: Scalar) -> int:
    found = _SIZE.fullmatch(scalar.text)
    if found is None:
        bare = _AMOUNT.fullmatch(scalar.text)
        raise Misfit(f"add a unit: {scalar.text}GiB or {scalar.text}MiB" if bare else None)
    size = int(float(found["amount"]) * BYTES[found["unit"]])
    if not 0 < size <= _LARGEST_BYTES:
        raise Misfit("at most 1024TiB")
    return size


def written_duration(seconds: float) -> str:
    """The duration in the largest unit that divides it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{written_number(seconds)}s"


def written_size(amount_bytes: int) -> str:
    """The size in the largest unit that divides it."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if amount_bytes and amount_bytes % 1024**power == 0:
            return f"{amount_bytes // 1024**power}{unit}"
    return f"{amount_bytes}B"


def slots(minimum: int) -> Kind[Resources]:
    """A number of slots, with or without their type: `8` or `h100:8`."""

    def read(scalar: Scalar) -> Resources:
        found = _SLOTS.fullmatch(scalar.text)
        if found is None:
            raise Misfit(_slots_hint(scalar.text))
        if scalar.quoted and found["type"] is None:
            raise Misfit("take the quotes away")
        if len(found["count"]) > 9 or not minimum <= int(found["count"]) <= MOST_SLOTS:
            raise Misfit()
        slot_type = found["type"].lower() if found["type"] is not None else None
        return Resources(slots=int(found["count"]), slot_type=slot_type)

    return Kind(f"a number of slots from {minimum} to {MOST_SLOTS}, alone or with its type (h100:8),", read)


def _type_name(scalar: Scalar) -> str:
    if not _TYPE.fullmatch(scalar.text):
        raise Misfit()
    return scalar.text.lower()


def _rehearsal(scalar: Scalar) -> Rehearsal:
    found = _REHEARSAL.fullmatch(scalar.text)
    if found is None:
        raise Misfit()
    nodes, each = int(found[1]), int(found[2])
    if not (1 <= nodes <= MOST_REHEARSAL_NODES and 1 <= each <= MOST_REHEARSAL_SLOTS):
        raise Misfit(f"at most {MOST_REHEARSAL_NODES} nodes of {MOST_REHEARSAL_SLOTS} slots")
    return Rehearsal(nodes=nodes, slots_per_node=each)


def _duration_hint(text: str) -> str | None:
    if _AMOUNT.fullmatch(text):
        return f"add a unit: {text}s, {text}m, {text}h or {text}d"
    if _COMPOUND.fullmatch(text):
        return "one number and one unit: write 1h30m as 90m"
    return None


def _slots_hint(text: str) -> str | None:
    swapped = re.fullmatch(r"([0-9]+)[:x* ]+([A-Za-z][A-Za-z0-9._-]*)", text, re.ASCII)
    if swapped:
        return f"the type comes first: {swapped[2]}:{swapped[1]}"
    if re.fullmatch(r"[A-Za-z]++[0-9][A-Za-z0-9._-]*+", text, re.ASCII):
        return f"say how many: {text}:1"
    return None


_AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_S = 3650 * 86400
_DURATION = re.compile(rf"(?P<amount>{_AMOUNT.pattern})(?P<unit>[smhd])", re.ASCII)
_COMPOUND = re.compile(r"([0-9]+[smhd]){2,}", re.ASCII)
BYTES = (
    {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", start=1)}
    | {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", start=1)}
    | {"B": 1}
)
_LARGEST_BYTES = 1024 * 1024**4
_SIZE = re.compile(rf"(?P<amount>{_AMOUNT.pattern}) ?(?P<unit>[KMGT]i?B|B)", re.ASCII)
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_SLOTS = re.compile(rf"(?:(?P<type>{_TYPE.pattern}):)?(?P<count>0|[1-9][0-9]*)", re.ASCII)
_REHEARSAL = re.compile(r"([0-9]{1,9})x([0-9]{1,9})", re.ASCII)

SIZE = Kind("a size such as 512MiB or 16GiB", _size_bytes, write=written_size)
"""A size of one number and one unit, in bytes."""

TYPE_NAME = Kind("a type of slot such as h100", _type_name)
"""The type of a slot, without a number, in lower case: comparisons ignore case."""

REHEARSAL = Kind("nodes x slots per node, such as 2x1,", _rehearsal)
"""A cluster for one run: `NODESxSLOTS`."""
