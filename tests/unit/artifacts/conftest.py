"""A directory of checkpoints and a store for them, which the tests of versions share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.artifacts.versions.blobs import DirectoryBlobs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty directory of checkpoints."""
    made = tmp_path / "checkpoint"
    made.mkdir()
    return made


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    """An empty store."""
    return DirectoryBlobs(tmp_path / "store")
