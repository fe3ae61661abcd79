"""Tables as they look, column by column."""

from __future__ import annotations

from tarmac.cli.views.table import Cell, Column, render
from tarmac.cli.views.terminal import Terminal

HEADS = (
    Column(title="NAME"),
    Column(title="SLOTS", right=True),
    Column(title="CLUSTER", optional=True),
    Column(title="WHY", flexible=True),
)
ROWS = [
    ("digits", "2", "local", "it waits for 2 slots on one node"),
    ("a", "16", "local", ""),
]


def table(width: int | None = None, *, colour: bool = False) -> str:
    return render(HEADS, ROWS, Terminal(width=width, colour=colour))


def test_columns_are_padded_and_numbers_stand_to_the_right() -> None:
    assert table() == (
        "NAME    SLOTS  CLUSTER  WHY\n"
        "digits      2  local    it waits for 2 slots on one node\n"
        "a          16  local"
    )


def test_the_flexible_column_is_cut_to_the_width() -> None:
    assert table(40) == (
        "NAME    SLOTS  CLUSTER  WHY\ndigits      2  local    it waits for 2…\na          16  local"
    )


def test_in_a_narrow_terminal_optional_columns_go() -> None:
    assert table(30) == ("NAME    SLOTS  WHY\ndigits      2  it waits for 2…\na          16")


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in range(6, 80):
        assert max(map(len, table(width).splitlines())) <= width


def test_a_flexible_column_goes_last_if_it_may_go_at_all() -> None:
    heads = (*HEADS[:3], Column(title="WHY", flexible=True, optional=True))
    assert render(heads, ROWS, Terminal(width=30)) == table(30)
    assert render(heads, ROWS, Terminal(width=20)) == "NAME    SLOTS\ndigits      2\na          16"


def test_a_column_empty_throughout_is_left_out() -> None:
    assert render(HEADS, [("digits", "2", "", "")], Terminal()) == "NAME    SLOTS\ndigits      2"


def test_colour_goes_around_the_text_not_the_padding() -> None:
    text = render(
        (Column(title="STATE"), Column(title="N")), [(Cell("up", "green"), "1")], Terminal(colour=True)
    )
    assert text == "\x1b[2mSTATE\x1b[0m  \x1b[2mN\x1b[0m\n\x1b[32mup\x1b[0m     1"


def test_wide_characters_count_twice() -> None:
    text = render((Column(title="NAME"), Column(title="N")), [("数字", "1"), ("abc", "2")], Terminal())
    assert text == "NAME  N\n数字  1\nabc   2"


def test_a_cell_cannot_break_the_table_or_move_the_cursor() -> None:
    text = render((Column(title="WHY"),), [("two\nlines \x1b[2Jcleared",)], Terminal())
    assert text == "WHY\ntwo lines �[2Jcleared"
