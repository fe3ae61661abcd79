"""Figures as a table in Markdown: a line per row, a column per system, peers with their ratio. See main."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import ROWS, TARMAC, Figure, Row, System


def render(figures: Sequence[Figure], systems: Sequence[System], *, scale: float) -> str:
    """The table, and below it a line for every system that could not be measured."""
    present = [system.name for system in systems if system.absent is None]
    values = {(figure.row, figure.system): figure.median for figure in figures}
    peers = [name for name in present if name != TARMAC]
    lines = [["what", "budget", TARMAC, *peers], ["---"] + ["---:"] * (len(peers) + 2)]
    for row in ROWS:
        if any(figure.row == row.key for figure in figures):
            own = values.get((row.key, TARMAC))
            theirs = [_peer(row, own, values.get((row.key, name))) for name in peers]
            lines.append([row.title, _budget(row, scale), _own(row, own, scale), *theirs])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    absent = "\n".join(f"Absent: {system.name} ({system.absent})." for system in systems if system.absent)
    return f"{table}\n\n{absent}".rstrip()


def missed(figures: Sequence[Figure], *, scale: float) -> list[str]:
    """A sentence for every budget that tarmac's median did not keep."""
    rows = {row.key: row for row in ROWS}
    own = [(rows[figure.row], figure.median) for figure in figures if figure.system == TARMAC]
    return [
        f"{row.title}: {_amount(row, median)}, budget {_budget(row, scale)}"
        for row, median in own
        if not row.kept(median, scale)
    ]


def _budget(row: Row, scale: float) -> str:
    bound = row.bound(scale)
    return "" if bound is None else f"{'≥' if row.more_is_better else '≤'} {bound:.3g} {row.unit}"


def _own(row: Row, value: float | None, scale: float) -> str:
    if value is None:
        return ""
    text = f"**{_amount(row, value)}**"
    return text if row.kept(value, scale) else f"{text} (missed)"


def _peer(row: Row, own: float | None, value: float | None) -> str:
    if value is None:
        return ""
    if not own or not value:
        return _amount(row, value)
    return f"{_amount(row, value)} ({_ratio(row.ratio(own, value))})"


def _ratio(value: float) -> str:
    if value >= 10:
        return f"{value:.0f}x"
    return f"{value:.1f}x" if value >= 1 else f"{value:.2g}x"


def _amount(row: Row, value: float) -> str:
    if row.unit == "ms" and value >= 1000:
        return f"{value / 1000:.2f} s"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 1 else 2
    return f"{value:,.{digits}f} {row.unit}"
