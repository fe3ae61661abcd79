"""Lines that workers wrote become reports, or are passed over: whatever is in them does no harm."""

from __future__ import annotations

import json
from math import inf, isnan

import pytest

from tarmac.control.state.metric_intake import MOST_NAMES, reports_of
from tarmac.model.metrics import MetricReport


def one(text: str) -> MetricReport | None:
    found = reports_of(text.encode("utf-8", "surrogatepass") + b"\n")
    return found[0] if found else None


def metrics(text: str) -> MetricReport:
    found = one('{"at": 1, "metrics": ' + text + "}")
    assert found is not None
    return found


def test_a_report_as_the_sdk_writes_it() -> None:
    line = (
        '{"at": 2.5, "rank": 3, "step": 7, "group": "validation", "progress": 0.5, "metrics": {"loss": 0.25}}'
    )
    assert one(line) == MetricReport(
        at=2.5, rank=3, step=7, group="validation", progress=0.5, values={"loss": 0.25}
    )


def test_numbers_of_every_kind_are_kept_as_numbers_and_the_rest_as_text() -> None:
    """N8: NaN, infinities, numbers beyond all bounds, truth values; None is nothing."""
    found = metrics(
        '{"a": "nan", "b": NaN, "c": -Infinity, "d": "cosine", "e": true, "f": null, "g": 1e999, '
        '"h": 123456789012345678901234567890, "i": {"j": [1]}, "k": "inf", "l": -1' + "0" * 400 + "}"
    )
    assert isnan(found.values["a"])
    assert isnan(found.values["b"])
    rest = {name: value for name, value in found.values.items() if name not in "ab"}
    assert rest == {"c": -inf, "e": 1.0, "g": inf, "h": 1.2345678901234568e29, "k": inf, "l": -inf}
    assert found.texts == {"d": "cosine", "i": '{"j": [1]}'}


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[1, 2]",
        "null",
        '{"metrics": {}}',
        '{"at": -1}',
        '{"at": 1e300}',
        '{"at": NaN}',
        '{"at": "1"}',
        '{"at": true}',
        '{"at": 1, "step": 1.5}',
        '{"at": 1, "step": 9223372036854775808}',
        '{"at": 1, "step": true}',
        '{"at": 1, "rank": -1}',
        '{"at": 1, "rank": 4294967296}',
        '{"at": 1, "rank": "0"}',
        '{"at": 1, "group": ""}',
        '{"at": 1, "group": 5}',
        '{"at": 1, "group": "' + "x" * 65 + '"}',
        '{"at": 1, "metrics": [1]}',
        '{"at": 1, "metrics": ' + "[" * 50_000,
        '{"at": 1, "x": "' + "x" * 200_000 + '"}',
        "\x00\xff",
    ],
)
def test_what_is_no_report_is_passed_over(line: str) -> None:
    assert one(line) is None
    after = reports_of(line.encode() + b'\n{"at": 1}\n\n{"at": 2}\n')
    assert [report.at for report in after] == [1.0, 2.0], "the lines around it count"


def test_names_are_short_and_printable() -> None:
    names = {"good": 1, "x" * 200: 2, "x" * 201: 3, "a\x00b": 4, "a\nb": 5, "": 6, "\ud800": 7, "\x1b[31m": 8}
    assert list(metrics(json.dumps(names)).values) == ["good", "x" * 200]
    assert len(metrics(json.dumps({str(number): 1 for number in range(3000)})).values) == MOST_NAMES


def test_progress_that_is_no_number_is_left_out() -> None:
    for text in ('"half"', "NaN", "1e999", "true", "[]"):
        found = one('{"at": 1, "progress": ' + text + "}")
        assert found is not None
        assert found.progress is None


def test_a_text_is_cut_where_it_is_long() -> None:
    assert metrics('{"a": "' + "x" * 5000 + '"}').texts == {"a": "x" * 1000}
