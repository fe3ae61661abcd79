"""Beside runs on a real Ray: commands, terminals, shells, notebooks and ports; arrays and chains of runs."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from arrays import try_array_and_chain
from ray_clusters import RayNodes
from shell import LIMIT_S, Screen, Shell
from ssh_hosts import connections, install_ssh, login_host
from terminals import install_lab, try_commands, try_notebook, try_own_shell

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]

# Its own line says that it serves only where Python keeps nothing back: never what is waited for.
SERVES = "echo attached; exec python3 -m http.server 8123 --bind 127.0.0.1 >requests.log"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A user with a server of their own."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    yield made
    made.close()


def add(shell: Shell, cluster: RayNodes, name: str, **settings: str) -> None:
    """Add the Ray, and wait until all of its nodes take work."""
    given = {**cluster.settings(), "directory": str(cluster.far / name), **settings}
    options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    shell.tarmac("clusters", "add", name, "--engine", "ray", *options, code=0)
    for number in range(3):
        shell.until("nodes", "--cluster", name, said=f"h{number}.{name}  up")


def test_people_work_beside_runs_on_its_nodes(shell: Shell, cluster: RayNodes, tmp_path: Path) -> None:
    add(shell, cluster, "gpus")
    run = "serves"
    shell.tarmac("run", "-d", "--cluster", "gpus", "--name", run, "--", "sh", "-c", SERVES, code=0)
    shell.until("logs", run, said="attached")
    with Screen(shell, "attach", "--tail", "1", run) as screen:
        screen.wait_for("attached")
        screen.press("\x03")
        assert screen.end() == 130
    try_commands(shell, run)
    with shell.start("port-forward", run, "0:8123") as forward:
        assert forward.stderr is not None
        found = re.search(r"http://127.0.0.1:\d+", forward.stderr.readline())
        assert found is not None
        with urllib.request.urlopen(found[0], timeout=LIMIT_S) as answer:
            assert b"Directory listing" in answer.read()
        shell.tarmac("stop", "--wait", run, code=0)
        assert forward.wait(LIMIT_S) == 0
    try_own_shell(shell, "--cluster", "gpus")
    path = f"PATH={install_lab(tmp_path)}"
    with Screen(shell, "jupyter", "--slots", "1", "--cluster", "gpus", "--env", path) as screen:
        try_notebook(shell, screen)


def test_arrays_and_chains_of_runs_on_its_nodes(shell: Shell, cluster: RayNodes) -> None:
    add(shell, cluster, "swept")
    try_array_and_chain(shell, "swept")


def test_a_server_that_is_no_node_of_it_asks_ray_through_ssh(
    shell: Shell, cluster: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting `ssh`: what speaks with Ray runs where ssh leads; agents are reached from here."""
    with login_host(tmp_path / "login", apart=False) as host:
        if host is None:
            pytest.skip("there can be no sshd")
        monkeypatch.setenv("PATH", install_ssh(tmp_path / "bin", host))
        add(shell, cluster, "far", ssh="login")
        shell.tarmac("clusters", "check", "far", code=0)
        shell.write("word", "brought along\n")
        done = shell.tarmac("run", "--cluster", "far", "--slots", "1", "--", "cat", "word", code=0)
        assert "brought along" in done.stdout
        assert connections(int((shell.home / "server.lock").read_text())), "it asks Ray through ssh"
        shell.close()


def test_72_slots_sit_on_its_nodes_as_they_were_rehearsed(shell: Shell, cluster: RayNodes) -> None:
    add(shell, cluster, "large", slots="24")
    script = 'echo "rank $NODE_RANK of $NNODES has $N_PROC: $TARMAC_REPLICA"'
    found = []
    for place in (("--rehearse", "3x24"), ("--cluster", "large")):
        done = shell.tarmac("run", "--slots", "72", *place, "--no-code", "--", "sh", "-c", script, code=0)
        found.append(
            sorted(line.partition("rank ")[2] for line in done.stdout.splitlines() if "rank " in line)
        )
        assert len(shell.json("show", "@last")["attempts"][-1]["nodes"]) == 3
    assert found[0] == found[1]
    assert [line.partition(":")[0] for line in found[1]] == [f"{rank} of 3 has 24" for rank in range(3)]
