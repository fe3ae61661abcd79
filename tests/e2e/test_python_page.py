"""docs/using/python.md: its code passes a type checker, and does what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from shell import Shell

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/using/python.md"
LIMIT_S = 300.0


@pytest.mark.heavy
def test_the_code_of_the_page_is_typed_and_runs(shell: Shell) -> None:
    script = shell.directory / "page.py"
    script.write_text(
        "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    )

    checker = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(script)]
    checked = subprocess.run(
        [*checker, "--cache-dir", str(shell.home.parent / "mypy")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=shell.directory,
        env=shell.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert result.returncode == 0, result.stderr
    words = (
        "completed 0",
        "hello from a run",
        "it ended: completed",
        "{'lr-0': 'completed', 'lr-1': 'completed'}",
        "lr-1 ended completed",
        "paused",
        "stopped",
        "run.yaml 1 unknown field 'slotz'",
        "there is no run 'no-such-run'",
    )
    assert [word for word in words if word not in result.stdout] == [], result.stdout


def test_every_error_of_the_page_is_exported() -> None:
    import tarmac

    table = PAGE.read_text().partition("| error |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
    names = {name for row in listed for name in re.findall(r"`(\w+)`", row)}
    exported = {
        name
        for name in tarmac.__all__
        if isinstance(kind := getattr(tarmac, name), type) and issubclass(kind, tarmac.TarmacError)
    }
    assert names == exported - {"TarmacError"}
