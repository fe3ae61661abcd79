"""A Ray cluster started over real SSH, with a stand-in for Ray: what is refused, started and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from doomed_servers import DoomedServers, Killed
from gitserver import NO_SSHD
from processes import ended
from ssh_servers import RAY_MODULE, VERSION, SshServers, ssh_servers
from tarmac.engines.ray.servers.ray_servers import RayServers
from tarmac.model.cluster import Machine, MachineState
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.node.host.services import VARIABLE
from tarmac.node.kernel import procfs
from wheels import make_wheel

pytestmark = pytest.mark.real_engine

NAME = "gpus"


class Lines:
    """What was reported, by machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: list[str] = []

    def __call__(self, machine: str, text: str) -> None:
        with self._lock:
            self.all.append(f"{machine}: {text}")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[SshServers]:
    with ssh_servers(tmp_path / "servers") as found:
        if found is None:
            pytest.skip(NO_SSHD)
        yield found


@pytest.fixture
def ray(servers: SshServers, tmp_path: Path) -> Iterator[RayServers]:
    """Ends everything, whatever a test started."""
    made = RayServers(tmp_path / "tokens", ssh=servers.ssh)
    yield made
    for number in range(1, 5):
        servers.provide(f"gpu{number}")
    made.end(NAME, _machines(servers, 4), purge=True, progress=Lines())


def _machines(servers: SshServers, count: int) -> list[Machine]:
    return [servers.machine(f"gpu{number}", head=number == 1) for number in range(1, count + 1)]


def _up(ray: RayServers, machines: list[Machine], *, install: bool = False) -> list[str]:
    lines = Lines()
    ray.prepare(NAME, machines, install=install, progress=lines).begin()
    return lines.all


def _pids(ray: RayServers, machines: list[Machine]) -> list[int | None]:
    return [report.pid for report in ray.look(NAME, machines)]


def test_a_cluster_is_started_looked_at_and_ended(
    ray: RayServers, servers: SshServers, tmp_path: Path
) -> None:
    machines = _machines(servers, 3)
    start = ray.prepare(NAME, machines, install=False, progress=(lines := Lines()))
    assert start.cluster.settings == {
        "address": f"{machines[0].address}:{servers.port}",
        "directory": str(servers.root / "data/runs"),
        "python": str(servers.bin("gpu1") / "python3"),
        "ssh": "gpu1",
        "token_file": str(tmp_path / "tokens" / NAME),
    }
    assert [state.state for state in ray.look(NAME, machines)] == [MachineState.DOWN] * 3
    start.begin()
    assert lines.all[3].startswith("gpu1: head started"), "the head first"
    reports = ray.look(NAME, machines)
    assert [report.state for report in reports] == [MachineState.UP] * 3
    assert all(report.since is not None for report in reports)
    token = tmp_path / "tokens" / NAME
    assert token.stat().st_mode & 0o077 == 0
    for report in reports:
        assert token.read_bytes() not in Path(f"/proc/{report.pid}/cmdline").read_bytes()
        assert token.read_bytes() not in Path(f"/proc/{report.pid}/environ").read_bytes()

    children = [int((servers.bin(machine.name) / "child").read_text()) for machine in machines]
    assert ray.end(NAME, machines, purge=False, progress=lines) == []
    assert lines.all[-1] == "gpu1: head ended", "the head last"
    assert all(ended(pid) for pid in (*children, *(report.pid for report in reports if report.pid)))
    assert not token.exists()
    assert not (servers.root / "data/gpu1/state").exists()
    assert ray.end(NAME, machines, purge=True, progress=lines) == []
    assert not (servers.root / "data/gpu1").exists()


def test_starting_again_restarts_what_is_down_and_nothing_else(ray: RayServers, servers: SshServers) -> None:
    machines = _machines(servers, 3)
    _up(ray, machines)
    head, first, second = _pids(ray, machines)
    assert head
    assert first
    assert second
    orphan = int((servers.bin("gpu2") / "child").read_text())
    os.kill(first, signal.SIGKILL)
    assert ended(first)
    down = ray.look(NAME, machines)[1]
    assert down.state is MachineState.DOWN
    lines = _up(ray, machines)
    assert "gpu1: head runs already" in lines
    assert "gpu3: worker runs already" in lines
    assert any(line.startswith("gpu2: worker started") for line in lines)
    after = _pids(ray, machines)
    assert (after[0], after[2]) == (head, second)
    assert ended(orphan), "what the first process left behind is ended before the next is started"


def test_a_restarted_head_finds_its_state_and_its_token(
    ray: RayServers, servers: SshServers, tmp_path: Path
) -> None:
    machines = _machines(servers, 2)
    _up(ray, machines)
    token = (tmp_path / "tokens" / NAME).read_bytes()
    head, worker = _pids(ray, machines)
    assert head
    os.kill(head, signal.SIGKILL)
    assert ended(head)
    _up(ray, machines)
    assert _pids(ray, machines)[1] == worker
    assert (tmp_path / "tokens" / NAME).read_bytes() == token
    assert (servers.root / "data/gpu1/state/tables").exists()


def test_all_problems_of_all_machines_are_reported_and_nothing_is_started(
    ray: RayServers, servers: SshServers
) -> None:
    servers.forbid("gpu2")
    servers.provide("gpu1", version=None)
    (servers.root / "data").mkdir()
    (servers.root / "data/gpu4").touch()
    machines = [
        servers.machine("gpu1", head=True),
        servers.machine("gpu2"),
        servers.machine("gpu3", python="/nowhere/python3"),
        servers.machine("gpu4"),
        servers.machine("gpu5"),
    ]
    with pytest.raises(InvalidInput) as refusal:
        _up(ray, machines)
    problems = {problem.message.partition(":")[0]: problem for problem in refusal.value.problems}
    assert "there is no Ray with" in problems["gpu1"].message
    assert "--install" in (problems["gpu1"].hint or "")
    assert "Permission denied" in problems["gpu2"].message
    assert "ssh -v gpu2" in (problems["gpu2"].hint or "")
    assert "/nowhere/python3" in problems["gpu3"].message
    assert "cannot be written" in problems["gpu4"].message
    assert "resolve" in problems["gpu5"].message
    assert len(refusal.value.problems) == 5
    assert not (servers.root / "data/gpu1/ray.json").exists()


def test_versions_of_ray_and_addresses_must_go_together(ray: RayServers, servers: SshServers) -> None:
    servers.provide("gpu2", version="2.9.0")
    machines = _machines(servers, 3)
    same = servers.machine("gpu4", address=machines[0].address)
    with pytest.raises(InvalidInput) as refusal:
        _up(ray, [*machines, same])
    texts = [problem.message for problem in refusal.value.problems]
    assert f"gpu4: gpu1 and gpu4 have the same address, {same.address}" in texts
    assert "gpu2: its Ray is 2.9.0, that of other hosts 2.60.0" in texts


def test_what_fails_to_start_leaves_nothing_behind(
    ray: RayServers, servers: SshServers, tmp_path: Path
) -> None:
    (servers.bin("gpu3") / "broken").touch()
    machines = _machines(servers, 3)
    with pytest.raises(InvalidInput, match="gpu3: Ray ended: RuntimeError: the GPU has fallen off the bus"):
        _up(ray, machines)
    assert _pids(ray, machines) == [None, None, None]
    assert not (tmp_path / "tokens" / NAME).exists()
    assert not (servers.root / "data/gpu1/state").exists()

    _up(ray, machines[:2])
    before = _pids(ray, machines)
    with pytest.raises(InvalidInput, match="gpu3"):
        _up(ray, machines)
    assert _pids(ray, machines) == before, "a cluster that ran before goes on"


def test_a_port_that_is_taken_is_named(ray: RayServers, servers: SshServers) -> None:
    _up(ray, _machines(servers, 1))
    other = servers.machine("gpu2", head=True, address=servers.machine("gpu1").address)
    with pytest.raises(InvalidInput, match=f"gpu2: port {servers.port} is taken"):
        ray.prepare("others", [other], install=False, progress=Lines())


def test_a_missing_ray_is_installed_beside_the_cluster(ray: RayServers, servers: SshServers) -> None:
    """From an index with a wheel of the stand-in: what pip does is real, and the index is a directory."""
    wheel = make_wheel(servers.root / "index/ray", "ray", VERSION, source=RAY_MODULE, script="ray")
    wheel.with_name("index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    for number in (1, 2):
        servers.provide(f"gpu{number}", version=None)
    machines = [replace(machine, python=sys.executable) for machine in _machines(servers, 2)]
    lines = _up(ray, machines, install=True)
    assert f"gpu1: installing Ray {VERSION} in {servers.root}/data/venv" in lines
    assert not any(line.startswith("gpu2: installing") for line in lines), "it sees the same disk"
    assert all(_pids(ray, machines))
    start = ray.prepare(NAME, machines, install=False, progress=Lines())
    assert start.cluster.settings["python"] == f"{servers.root}/data/venv/bin/python3"


def test_agents_end_with_the_cluster(ray: RayServers, servers: SshServers) -> None:
    machines = _machines(servers, 1)
    _up(ray, machines)
    runs = servers.root / "data/runs"
    runs.mkdir(exist_ok=True)
    with subprocess.Popen(["sleep", "3600"]) as agent:
        status = procfs.status(agent.pid)
        assert status is not None
        record = {"pid": agent.pid, "start_ticks": status.process.start_ticks, "boot_id": procfs.boot_id()}
        (runs / "agent-127.0.0.1.json").write_text(json.dumps(record))
        ray.end(NAME, machines, purge=False, progress=Lines())
        assert agent.wait(60) == -signal.SIGKILL


@pytest.mark.timeout(900)
def test_what_was_killed_at_any_step_is_completed_by_the_same_again(
    servers: SshServers, tmp_path: Path, ray: RayServers
) -> None:
    machines = _machines(servers, 2)
    for lives in range(100):
        doomed = DoomedServers(tmp_path / "tokens", servers.ssh, lives)
        try:
            _up(doomed, machines)
        except Killed:
            _up(ray, machines)
            assert all(_pids(ray, machines)), f"not completed after {lives} steps"
            ray.end(NAME, machines, purge=True, progress=Lines())
            assert _marked(servers.root) == [], f"something is left after {lives} steps"
        else:
            break
    assert lives >= 8, "two files and two services, each before and after"


def _marked(root: Path) -> list[int]:
    """The processes of services whose place is below a directory."""
    mark, found = os.fsencode(f"{VARIABLE}={root}/"), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            if any(word.startswith(mark) for word in path.read_bytes().split(b"\0")):
                found.append(int(path.parent.name))
    return found
