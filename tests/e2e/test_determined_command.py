"""Determined's own command, as PyPI has it, against a server of tarmac (D9 to D14; `make determined`)."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.client import Client

ROOT = Path(__file__).resolve().parents[2]
DET = ROOT / ".venv-determined/bin/det"
LIMIT_S = 120.0

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(6 * LIMIT_S)]

CONFIG = """\
name: digits
entrypoint: python3 train.py
hyperparameters: {lr: {type: categorical, vals: [0.1, 0.2]}}
searcher: {name: grid, metric: loss, max_length: {batches: 2}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""
SCRIPT = """\
import json, os
import tarmac
values = json.loads(os.environ["DET_HPARAMS"])
print("trial", os.environ["DET_TRIAL_ID"], "of experiment", os.environ["DET_EXPERIMENT_ID"], values)
tarmac.report(step=1, loss=values["lr"], group="validation")
"""


class Det:
    """The command, of a user with a home of its own, against one server."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._environment = {**os.environ, "HOME": str(directory), "DET_MASTER": url}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found = subprocess.run(
            [DET, *arguments],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert found.returncode == code, found.stdout + found.stderr
        return found.stdout + found.stderr


@pytest.fixture
def det(tmp_path: Path) -> Iterator[Det]:
    if not DET.exists():
        pytest.skip("the package `determined` is not installed: make determined")
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    home, context = tmp_path / "home", tmp_path / "context"
    home.mkdir(mode=0o700)
    context.mkdir()
    (context / "train.py").write_text(SCRIPT)
    (tmp_path / "grid.yaml").write_text(CONFIG)
    (home / "settings.toml").write_text(f'[determined]\nlisten = "{address}"\n[[local]]\nslots = 2\n')
    client = Client(home=home)
    client.version()  # starts the server, and answers once that listens
    try:
        yield Det(tmp_path, f"http://{address}")
    finally:
        client.stop_server()
        client.close()


def test_an_experiment_from_its_creation_to_its_archive(det: Det) -> None:
    followed = det("experiment", "create", "grid.yaml", "context", "-f")
    assert "Created experiment 1" in followed
    assert "trial 1 of experiment 1 {'lr':" in followed
    det("experiment", "wait", "1", "--polling-interval", "0.2")
    assert "COMPLETED" in det("experiment", "list")
    assert det("experiment", "list-trials", "1").count("COMPLETED") == 2
    described = det("trial", "describe", "2")
    assert '"loss"' in described
    det("experiment", "download-model-def", "1")
    det("experiment", "archive", "1")
    assert "grid" not in det("experiment", "list")
    det("experiment", "delete", "1", "--yes")
    assert "experiment not found: 1" in det("experiment", "describe", "1", code=1)


def test_the_queue_and_the_cluster(det: Det) -> None:
    det("experiment", "create", "grid.yaml", "context", "--paused")
    assert "PAUSED" in det("experiment", "list")
    det("experiment", "activate", "1")
    assert "default" in det("slot", "list")
    assert "node1" in det("agent", "list")
    assert "Priority" in det("job", "list")
    assert "train for 2 batches" in det("preview-search", "grid.yaml")
    assert "there is no job" in det("job", "update", "nothing", "--priority", "3", code=1)
