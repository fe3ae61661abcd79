"""Fixtures of the server's tests: a served control plane over fakes, and a home for real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Served, served


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Served]:
    """A control plane over fakes, served in this process."""
    with served(tmp_path / "home") as made:
        yield made
