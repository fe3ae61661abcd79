"""Real Ray on servers that only SSH reaches: started from nothing, changed with work on them, ended."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netns_servers import Missing, NetnsServers, netns_servers
from shell import Result, Shell, command
from source_tree import ROOT

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray")]

LIMIT_S = 600.0
PYTHON = ROOT / ".venv-bench/bin/python"

RUN = """\
name: counts
slots: 4
pause: {grace: 20s}
command: |
  kept=$CHECKPOINT_ARTIFACT_PATH/count
  count=$(cat $kept 2>/dev/null || echo 0)
  echo "from $count"
  while true; do
    count=$((count + 1)); echo $count > $kept.new; mv $kept.new $kept; sleep 0.1
  done
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetnsServers]:
    ray = PYTHON.with_name("ray")
    if not ray.exists():
        pytest.skip("there is no Ray in .venv-bench")
    try:
        with netns_servers(tmp_path_factory.mktemp("netns") / "servers", ["gpu1", "gpu2", "gpu3"]) as found:
            yield found
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def user(tmp_path: Path, servers: NetnsServers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Somebody whose `ssh` knows the servers; all that they started is ended."""
    monkeypatch.setenv("PATH", f"{servers.bin}:{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    made = Shell(tmp_path / "home", tmp_path / "work")
    yield made
    tarmac(made, "cluster", "down", "gpus", "--force")
    made.close()


def tarmac(shell: Shell, *arguments: str, code: int | None = None) -> Result:
    """A command that may take minutes."""
    result = subprocess.run(
        command(*arguments),
        cwd=shell.directory,
        env=shell.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert code is None or result.returncode == code, (result.returncode, result.stdout, result.stderr)
    return result


def hosts(shell: Shell, *names: str) -> None:
    lines = [f"{name} slots=4 cpus=2 python={PYTHON}{' head' if name == 'gpu1' else ''}" for name in names]
    shell.write("gpus.txt", "\n".join(lines) + "\n")


def until_up(shell: Shell, *names: str) -> None:
    """Until these nodes, and no others, take work."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = json.loads(tarmac(shell, "nodes", "--json", code=0).stdout)["nodes"]
        states = {node["hostname"]: node["state"] for node in found if node["cluster"] == "gpus"}
        if {name for name, state in states.items() if state == "up"} == set(names):
            return
        assert time.monotonic() < deadline, (states, tarmac(shell, "clusters", "check", "gpus").stdout)


def until_running(shell: Shell, run: str, *, attempt: int) -> str:
    """Until that attempt runs and its program has begun; the node that it is on."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        shown = json.loads(tarmac(shell, "show", run, "--json", code=0).stdout)
        log = tarmac(shell, "logs", run, "--attempt", str(attempt)).stdout
        if shown["run"]["state"] == "running" and shown["run"]["attempt"] == attempt and "from" in log:
            return str(shown["attempts"][-1]["nodes"][0])
        assert time.monotonic() < deadline, (shown, log, tarmac(shell, "why", run).stdout)


def until_left(servers: NetnsServers, name: str) -> None:
    """Until nothing of Ray runs there: a look at the cluster may have been on its way when that went."""
    deadline = time.monotonic() + LIMIT_S
    while found := {"gcs_server", "raylet", "ray"} & set(servers.processes(name)):
        assert time.monotonic() < deadline, (name, found)


def test_servers_become_a_cluster_change_with_work_on_them_and_are_left_as_they_were(
    user: Shell, servers: NetnsServers
) -> None:
    hosts(user, "gpu1", "gpu2")
    up = tarmac(user, "cluster", "up", "gpus.txt", code=0)
    assert "gpu1: head started" in up.stdout
    assert "there is gpus (ray, added)" in up.stdout
    until_up(user, "gpu1", "gpu2")
    assert "gcs_server" in servers.processes("gpu1")
    assert "raylet" in servers.processes("gpu2")

    node = json.loads(tarmac(user, "nodes", "--json").stdout)["nodes"]
    head = next(each["name"] for each in node if each["hostname"] == "gpu1")
    tarmac(user, "nodes", "drain", head, code=0)
    run = json.loads(
        tarmac(user, "run", user.write("run.yaml", RUN), "--cluster", "gpus", "-d", "--json", code=0).stdout
    )["id"]
    assert "gpu2" in until_running(user, run, attempt=1)
    refused = tarmac(user, "cluster", "down", "gpus", code=2)
    assert run in refused.stderr

    hosts(user, "gpu1", "gpu3")
    changed = tarmac(user, "cluster", "up", "gpus.txt", code=0)
    assert "gpu1: head runs already" in changed.stdout
    assert "gpu3: worker started" in changed.stdout
    assert f"gpu2: counts ({run}) saves, leaves and is queued again" in changed.stdout
    assert "gpu2: worker ended" in changed.stdout
    assert "raylet" not in servers.processes("gpu2")
    assert "gpu3" in until_running(user, run, attempt=2)
    assert "from 0\n" not in tarmac(user, "logs", run, "--attempt", "2").stdout, "it goes on where it was"

    status = json.loads(tarmac(user, "cluster", "status", "gpus", "--json", code=0).stdout)
    assert [(each["name"], each["state"]) for each in status["machines"]] == [("gpu1", "up"), ("gpu3", "up")]
    ended = tarmac(user, "cluster", "down", "gpus", "--force", "--purge", code=0)
    assert "gpus is gone" in ended.stdout
    for name in ("gpu1", "gpu2", "gpu3"):
        until_left(servers, name)
