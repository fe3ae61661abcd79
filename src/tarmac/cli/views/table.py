"""Tables for people: columns padded, fitted to the terminal, never wrapped. Used by `ls`, `nodes` ...

One column at most is flexible: it is cut so that a row fits the width. If that is not enough, columns are
left out: optional ones first and from the right, the flexible one last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tarmac.cli.views.terminal import Terminal, columns, fit, one_line

GAP = "  "
SMALLEST_FLEXIBLE = 12
"""Minimum width of a cut text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: its title and its behaviour in a narrow terminal."""

    title: str
    right: bool = False
    flexible: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A text in a style of `Terminal.paint`."""

    text: str
    style: str | None = None


def heads(titles: str, *, right: str = "", flexible: str = "", optional: str = "") -> tuple[Column, ...]:
    """The columns of these comma-separated titles; the other arguments name those with a property."""
    marked = {"right": right, "flexible": flexible, "optional": optional}
    named = {mark: set(those.split(", ")) if those else set() for mark, those in marked.items()}
    return tuple(
        Column(title=title, **{mark: title in those for mark, those in named.items()})
        for title in titles.split(", ")
    )


def render(heads: Sequence[Column], rows: Iterable[Sequence[Cell | str]], terminal: Terminal) -> str:
    """The table as text, one line per row, without a trailing line end; empty columns are left out."""
    cells = [[_clean(cell) for cell in row] for row in rows]
    shown = [i for i, _ in enumerate(heads) if any(row[i].text for row in cells)]
    widths = {i: max(columns(heads[i].title), *(columns(row[i].text) for row in cells)) for i in shown}
    if terminal.width is not None:
        _narrow(heads, widths, terminal.width)
    titles = [Cell(head.title, "dim") for head in heads]
    lines = (_line(heads, widths, row, terminal) for row in [titles, *cells])
    return "\n".join(lines)


def _clean(cell: Cell | str) -> Cell:
    if isinstance(cell, str):
        return Cell(one_line(cell))
    return Cell(one_line(cell.text), cell.style)


def _narrow(heads: Sequence[Column], widths: dict[int, int], width: int) -> None:
    """Fit the columns, in place: leave some out, then cut the flexible one."""
    removal_order = sorted(widths, key=lambda i: (not heads[i].optional, heads[i].flexible, -i))
    for i in removal_order[:-1]:
        if _smallest(heads, widths) <= width:
            break
        del widths[i]
    for i in widths:
        if heads[i].flexible:
            widths[i] -= max(0, _total(widths) - width)


def _smallest(heads: Sequence[Column], widths: dict[int, int]) -> int:
    """The width of a row whose flexible column has its minimum width."""
    slack = sum(max(0, width - SMALLEST_FLEXIBLE) for i, width in widths.items() if heads[i].flexible)
    return _total(widths) - slack


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * max(0, len(widths) - 1)


def _line(heads: Sequence[Column], widths: dict[int, int], row: Sequence[Cell], terminal: Terminal) -> str:
    parts = []
    for i, width in widths.items():
        text = fit(row[i].text, width)
        padding = " " * (width - columns(text))
        painted = terminal.paint(text, row[i].style)
        parts.append(padding + painted if heads[i].right else painted + padding)
    return GAP.join(parts).rstrip()
