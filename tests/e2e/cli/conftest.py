"""Homes for the tests of the command line: one shared by a module, and fresh ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A user who has never used tarmac."""
    yield from _shell(tmp_path)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user whose server stands; shared by the tests of a module."""
    for shell in _shell(tmp_path_factory.mktemp("settled")):
        shell.home.mkdir(mode=0o700)
        (shell.home / "settings.toml").write_text('[containers]\nuse = "none"\n')  # images here are made up
        shell.tarmac("server", "start", code=0)
        yield shell


def _shell(directory: Path) -> Iterator[Shell]:
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    yield shell
    shell.close()
