"""Commands answer quickly because they import little: what those that people type most may not import."""

from __future__ import annotations

from pathlib import Path

import pytest

from imported import ARCHIVES, CORE, LIBRARIES, STARTS, among, loaded
from served import Served


@pytest.mark.parametrize("arguments", [("ls",), ("run", "--detach", "--", "true"), ("queue",)], ids=" ".join)
def test_a_question_to_a_running_server_imports_only_what_asks_it(
    plane: Served, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    modules = loaded(*arguments, TARMAC_HOME=str(plane.home.root), PWD=str(tmp_path))
    assert "tarmac.client" in modules
    assert among(modules, *CORE, *LIBRARIES, *STARTS, *ARCHIVES, "tarmac.simulator", "tarmac.store") == []
