"""The printers of lists and of labelled facts: every view is a table of columns. Used by every command.

Columns are padded, fitted to the terminal, never wrapped. One column at most is flexible: it is cut so that a
row fits the width. If that is not enough, columns are left out: optional ones first and from the right, the
flexible one last.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from tarmac.cli.views.terminal import Terminal, columns, fit, one_line

T = TypeVar("T")

GAP = "  "
SMALLEST_FLEXIBLE = 12
"""Minimum width of a cut text."""


class Column(Struct, Generic[T], frozen=True):
    """A column of a table: its title, the cell of a record at a time, its behaviour in a narrow terminal.

    `key` is the value to sort by, if it is not the cell. A cell of None is empty.
    """

    title: str
    cell: Callable[[T, float], object] = lambda record, _now: record
    key: Callable[[T, float], Any] | None = None
    right: bool = False
    flexible: bool = False
    optional: bool = False


Table = Sequence[Column[T]]


class Cell(Struct, frozen=True):
    """A text in a style of `Terminal.paint`."""

    text: str
    style: str | None = None


def table_text(table: Table[T], records: Iterable[T], terminal: Terminal, *, now: float | None = None) -> str:
    """A line for each record; `now` is the present by default."""
    return "\n".join(table_pieces(table, [records], terminal, now=now))


def table_pieces(
    table: Table[T], pages: Iterable[Iterable[T]], terminal: Terminal, *, now: float | None = None
) -> Iterator[str]:
    """The same for pages that are read as they are printed: a text for each.

    If there are several, empty columns are not left out, and columns may widen from page to page.
    """
    at = time.time() if now is None else now
    return _pieces(
        table,
        ([[column.cell(record, at) for column in table] for record in page] for page in pages),
        terminal,
    )


def facts_text(facts: Mapping[str, object], terminal: Terminal, *, width: int = 10) -> str:
    """A line for each fact that has a value: its name and the value."""
    shown = ((name.ljust(width - 1), value) for name, value in facts.items() if value)
    return "\n".join(f"{terminal.paint(name, 'dim')} {value}" for name, value in shown)


def render(heads: Sequence[Column[Any]], rows: Iterable[Sequence[object]], terminal: Terminal) -> str:
    """The table as text, one line per row, without a trailing line end; empty columns are left out."""
    return "\n".join(_pieces(heads, [rows], terminal))


def _pieces(
    heads: Sequence[Column[Any]], pages: Iterable[Iterable[Sequence[object]]], terminal: Terminal
) -> Iterator[str]:
    rest = iter(pages)
    page, widths = next(rest, None), dict[int, int]()
    titles = [Cell(head.title, "dim") for head in heads]
    while page is not None:
        cells, page = [[_clean(cell) for cell in row] for row in page], next(rest, None)
        rows = cells if widths else [titles, *cells]
        if not widths:
            shown = [i for i in range(len(heads)) if page is not None or any(row[i].text for row in cells)]
            widths = {i: max(columns(row[i].text) for row in rows) for i in shown}
            if terminal.width is not None:
                _narrow(heads, widths, terminal.width)
        elif terminal.width is None:
            widths = {i: max(width, *(columns(row[i].text) for row in rows)) for i, width in widths.items()}
        yield "\n".join(_line(heads, widths, row, terminal) for row in rows)


def _clean(cell: object) -> Cell:
    if isinstance(cell, Cell):
        return Cell(one_line(cell.text), cell.style)
    return Cell(one_line(str(cell)) if cell is not None else "")


def _narrow(heads: Sequence[Column[Any]], widths: dict[int, int], width: int) -> None:
    """Fit the columns, in place: leave some out, then cut the flexible one."""
    removal_order = sorted(widths, key=lambda i: (not heads[i].optional, heads[i].flexible, -i))
    for i in removal_order[:-1]:
        if _smallest(heads, widths) <= width:
            break
        del widths[i]
    for i in widths:
        if heads[i].flexible:
            widths[i] -= max(0, _total(widths) - width)


def _smallest(heads: Sequence[Column[Any]], widths: dict[int, int]) -> int:
    """The width of a row whose flexible column has its minimum width."""
    slack = sum(max(0, width - SMALLEST_FLEXIBLE) for i, width in widths.items() if heads[i].flexible)
    return _total(widths) - slack


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * max(0, len(widths) - 1)


def _line(
    heads: Sequence[Column[Any]], widths: dict[int, int], row: Sequence[Cell], terminal: Terminal
) -> str:
    parts = []
    for i, width in widths.items():
        text, style = row[i].text, row[i].style
        spare = width - columns(text)
        if spare < 0:
            text = fit(text, width)
            spare = width - columns(text)
        padding = " " * spare
        painted = text if style is None else terminal.paint(text, style)
        parts.append(padding + painted if heads[i].right else painted + padding)
    return GAP.join(parts).rstrip()
