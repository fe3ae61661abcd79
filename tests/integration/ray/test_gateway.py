"""Runs on nodes of a real Ray call the gateway for Determined, which listens on another machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_clusters import RayNodes
from shell import Shell

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

EXPERIMENT = f"""name: calls
entrypoint: {sys.executable} call.py
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss, max_length: {{batches: 1}}}}
"""

CALL = """
import json
import os
import urllib.error
import urllib.request

def status(path, *, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DET_MASTER"] + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

own = {"Authorization": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
print("with its token", status("/api/v1/me", **own))
print("without", status("/api/v1/me"))
print("as the owner", status("/api/v1/auth/login", body={"username": "determined", "password": ""}))
"""


@pytest.fixture
def shell(tmp_path: Path, cluster: RayNodes) -> Iterator[Shell]:
    """A user whose server has a gateway, and has added the Ray."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    made.home.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    (made.home / "settings.toml").write_text(f'[determined]\nlisten = "{listen}"\n')
    given = {**cluster.settings(), "directory": str(cluster.far / "calls")}
    options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    made.tarmac("clusters", "add", "gpus", "--engine", "ray", *options, code=0)
    for number in range(3):
        made.until("nodes", "--cluster", "gpus", said=f"h{number}.gpus  up")
    yield made
    made.close()


def test_a_run_calls_the_gateway_with_its_token_and_is_not_taken_for_the_owner(shell: Shell) -> None:
    shell.write("call.py", CALL)
    file = shell.write("calls.yaml", EXPERIMENT)
    printed = shell.tarmac("run", file, "--cluster", "gpus", code=0).stdout
    assert "with its token 200" in printed
    assert "without 401" in printed
    assert "as the owner 403" in printed
    assert "gateway" not in shell.tarmac("clusters", "check", "gpus").stdout
