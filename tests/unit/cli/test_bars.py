"""The bar of an upload: drawn on a terminal while code is on its way, silent elsewhere, gone afterwards."""

from __future__ import annotations

import io

import pytest

from tarmac.cli.views.bars import BytesBar
from tarmac.cli.views.terminal import Terminal

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("ends", ["all is sent", "broken off"])
def test_an_upload_is_shown_as_it_goes_and_leaves_nothing_on_the_line(ends: str) -> None:
    stream, moment = io.StringIO(), [0.0]
    bar = BytesBar(stream, Terminal(width=80), now=lambda: moment[0])
    bar.show(0, 40 * MEBIBYTE)
    moment[0] = 2.0
    bar.show(10 * MEBIBYTE, 40 * MEBIBYTE)
    assert "10 MiB of 40 MiB, 25%" in stream.getvalue()
    if ends == "all is sent":
        bar.show(40 * MEBIBYTE, 40 * MEBIBYTE)
    bar.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_elsewhere_than_on_a_terminal_it_is_silent() -> None:
    stream = io.StringIO()
    bar = BytesBar(stream, Terminal(), now=lambda: 0.0)
    bar.show(0, MEBIBYTE)
    bar.show(MEBIBYTE, MEBIBYTE)
    bar.close()
    assert stream.getvalue() == ""
