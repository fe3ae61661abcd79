"""Commands answer quickly because they import little: what those that people type most may not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from imported import ARCHIVES, CORE, HTTP, LIBRARIES, PATHS, STARTS, among, loaded
from served import Served


@pytest.mark.parametrize("arguments", [("ls",), ("run", "--detach", "--", "true"), ("queue",)], ids=" ".join)
def test_a_question_to_a_running_server_imports_only_what_asks_it(
    plane: Served, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    modules = loaded(*arguments, TARMAC_HOME=str(plane.home.root), PWD=str(tmp_path))
    assert "tarmac.client" in modules
    forbidden = (*CORE, *LIBRARIES, *STARTS, *ARCHIVES, *HTTP, *PATHS, "tarmac.simulator", "tarmac.store")
    assert among(modules, *forbidden) == []


def test_a_list_of_runs_imports_no_records_of_other_answers(plane: Served) -> None:
    modules = loaded("ls", TARMAC_HOME=str(plane.home.root))
    assert "tarmac.api.run_operations" in modules
    others = (
        "account_operations",
        "clusters",
        "experiment_operations",
        "history_operations",
        "files",
        "placement",
    )
    assert among(modules, *(f"tarmac.api.{name}" for name in others)) == []
    assert (
        among(modules, "tarmac.model.cluster", "tarmac.model.run_records", "tarmac.node.kernel.procfs") == []
    )


@pytest.mark.parametrize("command", ["show", "why", "logs", "stop"])
def test_what_asks_about_a_run_need_not_know_what_a_run_is(
    plane: Served, tmp_path: Path, command: str
) -> None:
    variables = {"TARMAC_HOME": str(plane.home.root), "PWD": str(tmp_path)}
    loaded("run", "--detach", "--name", "asked", "--", "sleep", "60", **variables)
    forbidden = (*CORE, "tarmac.simulator", "tarmac.store", "tarmac.model.cluster")
    modules = loaded(command, "asked", **variables)
    assert among(modules, *forbidden) == []
    if command in ("show", "why"):
        assert among(modules, *PATHS, "locale", "tarmac.model.notification", "tarmac.model.secret") == []


def test_a_server_imports_nothing_for_databases_and_clusters_that_it_does_not_have() -> None:
    code = "import sys, tarmac.server.daemon; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split())
    assert "sqlalchemy.dialects.sqlite" in modules
    absent = (
        "sqlalchemy.dialects.postgresql",
        "alembic",
        "tarmac.systems.determined.gateway.application",
        "matplotlib",
        "fsspec",
        "tarmac.engines.slurm.engine",
    )
    assert among(modules, *absent) == []
