"""Tables of the documentation, read: tests hold the code to what its pages promise."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def variables(page: str, section: str = "") -> dict[str, str]:
    """The variables in the first such table of a page (or section of it), and who sets each, if it says."""
    text = (DOCS / "using" / page).read_text(encoding="utf-8")
    _, _, rest = (text.split(section)[1] if section else text).partition("\n| variable |")
    head, *rows = rest.split("\n\n")[0].splitlines()
    cells = [re.findall(r"(?<=\| ).*?(?= \|)", row) for row in rows[1:]]
    names = [cell[0].strip("`") for cell in cells]
    assert names
    assert len(set(names)) == len(names)
    return dict(zip(names, (cell[1] if "set by" in head else "" for cell in cells), strict=True))


def settings(table: str) -> list[tuple[str, str, str]]:
    """The rows of docs/operating/settings.md about a table of the file: key, type, default."""
    text = (DOCS / "operating/settings.md").read_text(encoding="utf-8")
    section = text.split(f"## `{table}`\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", section, re.MULTILINE)
