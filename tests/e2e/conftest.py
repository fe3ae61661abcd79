"""A user with a fresh home, for the end-to-end tests outside the command line's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A user who has never used tarmac."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    yield made
    made.close()
