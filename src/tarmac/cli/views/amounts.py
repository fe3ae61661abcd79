"""Times, durations, sizes and counts as text, and parsed from text. Used by every command."""

import re

_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def age(at: float | None, now: float) -> str:
    """The time since `at`: "3m ago"; empty for None."""
    if at is None:
        return ""
    seconds = now - at
    if seconds < 1:
        return "now"
    unit, size = next((unit, size) for unit, size in _UNITS_S.items() if seconds >= size)
    return f"{int(seconds // size)}{unit} ago"


def until(at: float, now: float) -> str:
    """The time until `at`, as exact as an estimate: "now", "in 40 s", "in 12 min", "in 3 h", "in 2 d"."""
    seconds = at - now
    if seconds < 1:
        return "now"
    for unit, size, most in (("s", 1, 90), ("min", 60, 90), ("h", 3600, 36)):
        if seconds < size * most:
            return f"in {max(1, round(seconds / size))} {unit}"
    return f"in {round(seconds / 86400)} d"


def duration(seconds: float | None) -> str:
    """A length of time in at most two units: "32ms", "0.3s", "12s", "3m 05s", "2h 10m", "1d 4h"."""
    if seconds is None:
        return ""
    if seconds < 0.0995:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def size(count_bytes: float) -> str:
    """An amount of bytes in binary units: "512 B", "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count_bytes < 1024:
            return f"{count_bytes:.0f} B" if unit == "B" else f"{_short(count_bytes)} {unit}"
        count_bytes /= 1024
    return f"{_short(count_bytes)} TiB"


def number(value: float) -> str:
    """A metric or a count of processors, short but precise enough: "0.0312", "1200", "4"."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def counted(count: int, noun: str) -> str:
    """A number of things: `1 run`, `2,000 runs`."""
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def parse_duration(text: str) -> float | None:
    """Seconds of "90s", "10m", "2h", "1d", "1h30m" or a bare number; None for other texts."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        return None
    return sum(float(amount) * _UNITS_S[unit] for amount, unit in re.findall(r"([\d.]+)([smhd])", text))


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
