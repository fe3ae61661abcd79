"""The page's source: types of the API as they are, small files, and a bound on all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "web/src"

LARGEST = 400
"""The most lines of a file, as for Python."""

CODE_LINES = 7_304
"""The most lines of all files: lower it with the code."""


def test_the_types_of_the_page_are_those_of_the_api() -> None:
    tool = [sys.executable, str(ROOT / "tools/page_types.py"), "--check"]
    result = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_files_of_the_page_are_small_and_say_what_they_are_for() -> None:
    total = 0
    for path in sorted(each for each in SOURCE.rglob("*") if each.suffix in {".ts", ".tsx", ".css"}):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(("// ", "/* ")), (
            f"{path.relative_to(ROOT)}: the first line says its purpose"
        )
        if path.name == "types.ts":
            continue
        assert len(lines) <= LARGEST, f"{path.relative_to(ROOT)} has {len(lines)} lines"
        total += len([line for line in lines if line.strip() and not line.strip().startswith("//")])
    assert CODE_LINES - 100 < total <= CODE_LINES, f"the page has {total} lines: set CODE_LINES"
