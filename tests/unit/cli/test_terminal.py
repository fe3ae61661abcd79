"""What is assumed of an output stream."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from tarmac.api.history_operations import StreamNotice
from tarmac.cli.dialogue import print_json, print_text, print_verbatim
from tarmac.cli.views.followview import JsonView
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


OBEYED = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
]


def test_json_is_the_same_to_a_program_and_gives_a_terminal_nothing_to_obey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {"tail": [f"a{chr(code)}é數" for code in (*OBEYED, 0xD800)], "na\u202eme": "\x9b2J"}
    lines = io.StringIO()
    notice = "".join(f"a{chr(code)}é數" for code in (*OBEYED, 0xD800))
    JsonView(lines).notice(StreamNotice(text=notice))
    print_json(said)
    printed = capsys.readouterr().out
    assert json.loads(printed) == said
    assert json.loads(lines.getvalue())["text"] == notice
    for text in (printed, lines.getvalue()):
        assert not {chr(code) for code in OBEYED if chr(code) != "\n"} & set(text)
        assert text.encode()  # half a surrogate has no bytes
        assert "é數" in text


def test_a_run_file_is_printed_as_it_is_and_safely_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    source = "name: a\n# \x1b]0;title\x07\x9b2J\u202e\n"
    print_verbatim(source)
    assert capsys.readouterr().out == source
    screen = Screen()
    with contextlib.redirect_stdout(screen):
        print_verbatim(source)
    assert screen.getvalue() == "name: a\n# \u241b]0;title\u2407\ufffd2J\ufffd\n"
