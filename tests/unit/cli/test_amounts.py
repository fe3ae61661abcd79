"""Ages, durations, sizes and numbers in words, and durations back from words."""

from __future__ import annotations

import pytest

from tarmac.cli.views.amounts import age, duration, number, parse_duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.9, "now"),
        (3, "3s ago"),
        (59.9, "59s ago"),
        (200, "3m ago"),
        (7300, "2h ago"),
        (200000, "2d ago"),
    ],
)
def test_age(seconds: float, text: str) -> None:
    assert age(1000.0 - seconds, 1000.0) == text


def test_age_of_what_has_not_come_or_lies_ahead() -> None:
    assert age(None, 1000.0) == ""
    assert age(1005.0, 1000.0) == "now"  # clocks differ a little


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (-0.1, "0ms"),
        (0.032, "32ms"),
        (0.26, "0.3s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (185, "3m 05s"),
        (7810, "2h 10m"),
        (100800, "1d 4h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**34, "16 GiB"), (2**50, "1024 TiB")],
)
def test_size(amount: int, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.031249, "0.03125"), (4.0, "4"), (1200, "1200"), (123456.7, "123457")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5d", 129600),
        ("soon", None),
        ("3 w", None),
        ("", None),
    ],
)
def test_parse_duration(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds
