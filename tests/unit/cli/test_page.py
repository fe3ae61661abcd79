"""docs/using/cli.md tells of every command and option, as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_what_the_program_says() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools/cli_page.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
