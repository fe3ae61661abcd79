"""What the keys of a configuration may hold. Used by the readers of this package."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tarmac.dialects.kinds import Kind, Misfit
from tarmac.dialects.located import Scalar

LONGEST_RUNTIME_S = 3650 * 86400


def count(maximum: int) -> Kind[int]:
    """A whole number from 1, also in quotes."""

    def read(scalar: Scalar) -> int:
        if not _WHOLE.fullmatch(scalar.text) or not 1 <= int(scalar.text) <= maximum:
            raise Misfit()
        return int(scalar.text)

    return Kind(f"a whole number from 1 to {maximum}", read)


def switch() -> Kind[bool]:
    """Yes or no, in any of YAML's words."""

    def read(scalar: Scalar) -> bool:
        found = _SWITCH.get(scalar.text.strip().lower())
        if found is None:
            raise Misfit()
        return found

    return Kind("true or false", read)


def runtime_s() -> Kind[float]:
    """`<value><unit>`, one unit of s, m, h, d; in seconds (K7)."""

    def read(scalar: Scalar) -> float:
        found = _RUNTIME.fullmatch(scalar.text)
        if found is None:
            raise Misfit(_runtime_hint(scalar.text))
        seconds = int(found["value"]) * _UNITS_S[found["unit"]]
        if not 1 <= seconds <= LONGEST_RUNTIME_S:
            raise Misfit("at least 1s and at most 3650d")
        return float(seconds)

    return Kind("a whole number with one unit of s, m, h and d, such as 12h,", read)


def memory_bytes(bare_unit_bytes: int) -> Kind[int]:
    """An amount of memory; a bare number counts units of `bare_unit_bytes`."""

    def read(scalar: Scalar) -> int:
        found = _MEMORY.fullmatch(scalar.text.strip())
        if found is None:
            raise Misfit()
        unit = found["unit"].lower()
        each = bare_unit_bytes if not unit else _UNITS_BYTES[unit]
        size = int(float(found["value"]) * each)
        if not (1 << 20) <= size <= 1 << 50:
            raise Misfit("at least 1MiB and at most 1024TiB")
        return size

    return Kind("an amount of memory such as 12GiB", read)


def bare_number(scalar: Scalar) -> bool:
    """Whether an amount of memory says no unit."""
    return _MEMORY.fullmatch(scalar.text.strip()) is not None and scalar.text.strip()[-1:].isdigit()


def one_line(wanted: str) -> Kind[str]:
    """A text of one line that is not empty: it becomes a part of one line of a batch script."""

    def read(scalar: Scalar) -> str:
        found = scalar.text.strip()
        if not found or len(found) > 255 or not found.isprintable():
            raise Misfit("one line of 1 to 255 characters")
        return found

    return Kind(wanted, read)


def path(wanted: str) -> Kind[str]:
    """A path on one line; `~` would not be expanded in every place it goes to."""

    def read(scalar: Scalar) -> str:
        found = scalar.text.strip()
        if not found or len(found.encode()) > 4096 or not found.isprintable():
            raise Misfit()
        if found.startswith("~"):
            raise Misfit(f"write $HOME{found[1:]}" if found[1:2] in ("", "/") else "write the whole path")
        return found

    return Kind(wanted, read)


def url() -> Kind[str]:
    """The address of a service, without a login in it."""

    def read(scalar: Scalar) -> str:
        found = scalar.text.strip()
        try:
            parts = urlsplit(found)
            good = parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good or not _URL.fullmatch(found):
            raise Misfit("it begins with https://")
        return found

    return Kind("the URL of a service, such as https://firecrest.cscs.ch,", read)


def has_login(text: str) -> bool:
    """Whether a URL carries a name or password before its host."""
    return re.match(r"[a-z]+://[^/?#]*@", text, re.IGNORECASE | re.ASCII) is not None


def _runtime_hint(text: str) -> str | None:
    if re.fullmatch(r"\s*[0-9]+\s*", text, re.ASCII):
        return f"add a unit: {text.strip()}m or {text.strip()}h"
    if re.fullmatch(r"([0-9]+\s*[smhd]\s*){2,}", text, re.ASCII):
        return "only one unit is allowed: write 1h30m as 90m"
    if re.fullmatch(r"[0-9]+\.[0-9]+[smhd]", text, re.ASCII):
        return "write 1.5h as 90m"
    if re.fullmatch(r"([0-9]+-)?[0-9]+:[0-9]+(:[0-9]+)?", text, re.ASCII):
        return "write it with a unit, 12:00:00 as 12h"
    return None


_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_RUNTIME = re.compile(r"\s*(?P<value>[0-9]{1,12})\s*(?P<unit>[smhd])\s*", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MEMORY = re.compile(
    r"(?P<value>[0-9]{1,15}(\.[0-9]{1,6})?)\s*(?P<unit>|[kmgt](i?b)?)", re.ASCII | re.IGNORECASE
)
_UNITS_BYTES = (
    {prefix: 1024**power for power, prefix in enumerate("kmgt", start=1)}
    | {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)}
    | {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)}
)
_URL = re.compile(r"[!-~]{1,2000}", re.ASCII)
