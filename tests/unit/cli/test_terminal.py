"""What is assumed of an output stream."""

from __future__ import annotations

import io

import pytest

from tarmac.cli.output import print_text
from tarmac.cli.views.terminal import Terminal, columns, fit, one_line, terminal_of


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_file_has_neither_width_nor_colour() -> None:
    assert terminal_of(io.StringIO()) == Terminal(width=None, colour=False)


def test_a_terminal_has_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_of(Screen()) == Terminal(width=72, colour=True)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setenv(name, value)
    assert terminal_of(Screen()) == Terminal(width=72, colour=False)


def test_texts_are_measured_and_cut_in_columns() -> None:
    assert columns("é数字e\u0301") == 6
    assert fit("数字数字", 5) == "数字…"
    assert fit("digits", 6) == "digits"
    assert one_line("a\tb\r\nc") == "a b c"


def test_an_answer_draws_nothing_but_its_lines_and_colours(capsys: pytest.CaptureFixture[str]) -> None:
    """Last lines, names and labels are a run's own words, wherever a page shows them."""
    print_text("  | \x1b[2J\x1b]0;title\x07user\u202enimda\n\x1b[31mred\x1b[0m")
    assert capsys.readouterr().out == "  | \u241b[2J\u241b]0;title\u2407user\ufffdnimda\n\x1b[31mred\x1b[0m\n"
