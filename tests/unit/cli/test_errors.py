"""Errors word by word."""

from __future__ import annotations

from pathlib import Path

from tarmac.cli.views.errors import line_of_file, render_error, render_warning
from tarmac.cli.views.terminal import Terminal
from tarmac.model.errors import InvalidInput, NotFound, Problem, TarmacError

PLAIN = Terminal()
TEXT = {1: "name: digits", 2: "\tslot: 2"}


def rendered(error: InvalidInput | NotFound, terminal: Terminal = PLAIN) -> str:
    return render_error(error, terminal, lambda _file, line: TEXT.get(line))


def test_every_problem_with_its_place_its_line_and_its_hint() -> None:
    error = InvalidInput(
        [
            Problem(
                message="unknown field 'slot'",
                file="run.yaml",
                line=2,
                column=2,
                hint="did you mean 'slots'?",
            ),
            Problem(message="'command' is missing", file="run.yaml", line=9),
            Problem(message="--slots: a number is expected"),
        ]
    )
    assert rendered(error) == (
        "error: run.yaml:2:2: unknown field 'slot'\n"
        "  2 |  slot: 2\n"
        "    |  ^\n"
        "  hint: did you mean 'slots'?\n"
        "error: run.yaml:9: 'command' is missing\n"
        "error: --slots: a number is expected"
    )


def test_an_error_with_a_hint() -> None:
    error = NotFound("there is no run 'digit'", hint="the nearest name is 'digits'")
    assert rendered(error) == "error: there is no run 'digit'\n  hint: the nearest name is 'digits'"


def test_further_lines_of_a_message_are_indented() -> None:
    assert rendered(NotFound("it ended:\nno space")) == "error: it ended:\n  no space"


def test_colour_marks_the_label_and_the_place() -> None:
    text = rendered(InvalidInput([Problem(message="bad", file="a", line=7)]), Terminal(width=80, colour=True))
    assert text == "\x1b[31merror:\x1b[0m \x1b[1ma:7\x1b[0m: bad"


def test_a_quoted_line_is_cut_where_there_is_no_terminal() -> None:
    error = InvalidInput([Problem(message="bad", file="a", line=7)])
    assert len(render_error(error, Terminal(), lambda _file, _line: "x" * 10**6)) < 400


def test_a_quoted_line_is_cut_to_the_terminal() -> None:
    error = InvalidInput([Problem(message="bad", file="a", line=1, column=90)])
    text = render_error(error, Terminal(width=40), lambda _file, _line: "x" * 100)
    assert text == "error: a:1:90: bad\n  1 | " + "x" * 33


def test_lines_of_files(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(b"one\ntw\xff\n")
    assert line_of_file(str(file), 2) == "tw�"
    assert line_of_file(str(file), 3) is None
    assert line_of_file(str(tmp_path / "none"), 1) is None


def test_what_an_error_repeats_draws_nothing_on_the_terminal() -> None:
    """A name or value of a run file may hold what moves the cursor, rings, or turns what is read."""
    hostile = "a\x1b[2J\x07\u202eb"
    drawn = [
        render_error(TarmacError(f"{hostile}\nmore", hint=hostile), PLAIN),
        render_error(InvalidInput([Problem(message=hostile, file=hostile, hint=hostile)]), PLAIN),
        render_warning(hostile, PLAIN),
    ]
    for text in drawn:
        assert text.replace("\n", "").isprintable(), text
        assert "a�[2J��b" in text
    assert len(drawn[0].splitlines()) == 3
