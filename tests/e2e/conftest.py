"""A user with a fresh home, for the end-to-end tests outside the command line's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell

# Where tests are started in the background, Ctrl-C is ignored, and every process they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A user who has never used tarmac."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    yield made
    made.close()
