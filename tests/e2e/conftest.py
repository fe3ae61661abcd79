"""A user with a fresh home, for the end-to-end tests outside the command line's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell

SHARED_USERS = frozenset({"settled", "user", "boxed"})
"""Fixtures that start a server for all tests of a module."""

# Where tests are started in the background, Ctrl-C is ignored, and every process they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a server run in one process: else each process would start that server again."""
    for item in items:
        if isinstance(item, pytest.Function) and SHARED_USERS & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A user who has never used tarmac."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    yield made
    made.close()
