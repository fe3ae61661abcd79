"""A real Slurm through the command line, from its own machine and over SSH.

Runs pause, resume, stop, lose their connection, and are cancelled by somebody else.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from arrays import try_array_and_chain
from shell import Screen, Shell
from slurm_clusters import Missing, running_slurm
from ssh_hosts import cut_connections, install_ssh, login_host
from terminals import install_lab, try_commands, try_notebook, try_own_shell

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-story")]

SITE = "name: site\nengine: slurm\nsettings: {{directory: {directory}, partition: batch, python: {python}}}\n"
ECHO = """name: echo
cluster: site
slots: 8
code: .
command: |
  cat greeting
  echo "rank $NODE_RANK of $NNODES meets at $MASTER_ADDR"
"""
LASTS = """name: lasts
cluster: site
slots: 2
command: |
  if [ -e "$CHECKPOINT_ARTIFACT_PATH/seen" ]; then echo resumed; else echo fresh; fi
  touch "$CHECKPOINT_ARTIFACT_PATH/seen"
  exec sleep 3600
"""


@pytest.fixture
def site(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Slurm of two nodes with four processors each, added as the cluster `site`; its SLURM_CONF."""
    try:
        with running_slurm(tmp_path / "slurm", cpus_per_node=4) as variables:
            monkeypatch.setenv("SLURM_CONF", variables["SLURM_CONF"])
            text = SITE.format(directory=tmp_path / "shared", python="python3")
            shell.tarmac("clusters", "add", shell.write("site.yaml", text), code=0)
            yield variables["SLURM_CONF"]
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def logged(shell: Shell, run: str, line: str) -> None:
    """Until a run has written this line."""
    following = shell.start("logs", "-f", run)
    assert following.stdout is not None
    found = any(line in each for each in following.stdout)
    following.kill()
    following.communicate()
    assert found, shell.tarmac("show", run).stdout


@pytest.fixture
def far(shell: Shell, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same Slurm behind SSH, as the cluster `far`; where there can be no sshd, the cluster `site`."""
    with login_host(tmp_path / "login", apart=False, variables={"SLURM_CONF": site}) as host:
        if host is None:
            yield "site"
            return
        monkeypatch.setenv("PATH", install_ssh(tmp_path / "bin", host))
        shell.tarmac("server", "restart", code=0)
        settings = f"ssh: login, directory: {host.private / 'runs'}, partition: batch"
        shell.write("far.yaml", f"name: far\nengine: slurm\nsettings: {{{settings}}}\n")
        shell.tarmac("clusters", "add", "far.yaml", code=0)
        yield "far"
        shell.close()


def test_nodes_that_do_not_see_the_directory_are_told_before_a_retry(
    shell: Shell, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the login node is its own: no node sees the directory there."""
    with login_host(tmp_path / "login", variables={"SLURM_CONF": site}) as host:
        if host is None or not host.apart:
            pytest.skip("there can be no host with a disk of its own here")
        monkeypatch.setenv("PATH", install_ssh(tmp_path / "bin", host))
        shell.tarmac("server", "restart", code=0)
        directory = host.private / "runs"
        settings = f"ssh: login, directory: {directory}, partition: batch"
        shell.write("apart.yaml", f"name: apart\nengine: slurm\nsettings: {{{settings}}}\n")
        shell.tarmac("clusters", "add", "apart.yaml", code=0)
        check = shell.tarmac("clusters", "check", "apart", code=1).stdout
        assert f"does not see {directory}: the nodes have to share it" in " ".join(check.split())
        shell.write("hello.yaml", "name: hello\ncluster: apart\nslots: 1\nretries: 3\ncommand: echo hello\n")
        shell.tarmac("run", "hello.yaml", "--detach", code=0)
        shell.wait_until("hello", "ended")
        shown = shell.json("show", "hello")
        assert len(shown["attempts"]) == 1
        assert "its nodes do not see that directory" in shown["run"]["cause"]["message"]
        shell.close()


def test_runs_on_a_real_slurm(shell: Shell, site: str, far: str) -> None:
    assert site
    check = shell.tarmac("clusters", "check", "site")
    assert check.returncode == 0, check.stdout
    shell.write("greeting", "hello from the code\n")
    echo = shell.tarmac("run", shell.write("echo.yaml", ECHO))
    assert echo.returncode == 0, (echo.stdout, echo.stderr, shell.tarmac("show", "echo").stdout)
    for rank in (0, 1):
        log = shell.tarmac("logs", "echo", "--replica", str(rank), code=0).stdout
        assert "hello from the code" in log
        assert f"rank {rank} of 2 meets at 127.0.0.1" in log

    run, other = "lasts", "other"
    shell.tarmac("run", shell.write("lasts.yaml", LASTS), "--detach", code=0)
    logged(shell, run, "fresh")
    shell.tarmac("pause", run, code=0)
    shell.wait_until(run, "paused")
    shell.tarmac("resume", run, code=0)
    logged(shell, run, "resumed")
    try_commands(shell, run)
    shell.tarmac("stop", "--wait", run, code=0)
    assert shell.json("show", run)["run"]["outcome"] == "stopped"
    kept = shell.json("artifacts", "ls", run)["artifacts"]
    assert [(each["kind"], each["files"]) for each in kept] == [("checkpoint", 1)] * 2, "one of each attempt"
    shell.tarmac("artifacts", "get", run, "-o", "fetched", code=0)
    assert (shell.directory / "fetched/seen").exists()
    shell.write("here.yaml", f"input_artifacts: [{run}]\ncommand: ls $CHECKPOINT_ARTIFACT_PATH\n")
    assert shell.tarmac("run", "here.yaml", code=0).stdout == "seen\n"

    check = shell.tarmac("clusters", "check", far)
    assert check.returncode == 0, check.stdout
    assert "hello from the code" in shell.tarmac("run", "echo.yaml", "--cluster", far, code=0).stdout
    shell.tarmac("run", "lasts.yaml", "--cluster", far, "--name", other, "--detach", code=0)
    logged(shell, other, "fresh")
    try_commands(shell, other)
    cut_connections(int((shell.home / "server.lock").read_text()))
    shell.tarmac("pause", other, code=0)
    shell.wait_until(other, "paused")
    shell.tarmac("resume", other, code=0)
    logged(shell, other, "resumed")
    job = shell.json("show", other)["attempts"][-1]["native"]["id"]
    subprocess.run(["scancel", job], check=True, timeout=120)
    shell.wait_until(other, "ended")
    shown = shell.json("show", other)["run"]
    assert shown["outcome"] == "stopped"
    assert shown["cause"]["message"] == f"job {job} was cancelled in Slurm, not through tarmac"
    kept = shell.json("artifacts", "ls", other)["artifacts"]
    assert [(each["kind"], each["files"]) for each in kept] == [("checkpoint", 1)] * 2, "one of each attempt"
    left = Path(shell.json("clusters", "show", far)["settings"]["directory"]) / "runs" / shown["id"]
    assert left.is_dir()
    assert "greeting" in {each["name"] for each in shell.json("files", "echo")["files"]}
    shell.tarmac("rm", "-y", other, code=0)
    assert not left.exists()
    shell.tarmac("show", shown["id"], code=2)


def test_shells_and_notebooks_are_runs_of_a_real_slurm(shell: Shell, site: str, tmp_path: Path) -> None:
    assert site
    try_own_shell(shell, "--cluster", "site")
    path = f"PATH={install_lab(tmp_path)}"
    with Screen(shell, "jupyter", "--slots", "1", "--cluster", "site", "--env", path) as screen:
        try_notebook(shell, screen)


def test_arrays_and_chains_of_runs_on_a_real_slurm(shell: Shell, site: str) -> None:
    assert site
    try_array_and_chain(shell, "site")
