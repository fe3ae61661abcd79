"""What goes wrong on a machine, as a user meets it: processes killed, a full disk, missing commands."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from attempts import wait_until
from shell import LIMIT_S, LOOK_AGAIN_S, Shell
from small_disks import small_disk

MARK = "STRAY_MARK"

DAEMON = f"""\
name: orphans
pause: {{{{grace: 1s}}}}
environment:
  variables:
    {MARK}: '{{mark}}'
command: |
  setsid setsid sleep 600 &
  echo ready
  exec sleep 600
"""


def claimant_of(home: Path, run: str, attempt: int) -> int:
    """The pid of the process that has claimed the only node of an attempt."""
    claims = list((home / "runs" / run / "attempts" / str(attempt) / "nodes").glob("*/claim"))
    return int(json.loads(claims[0].read_text())["process"]["pid"])


def carrying(mark: str) -> list[int]:
    """The processes whose environment carries the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(
                b"\0"
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait, bounded, for a condition of the machine that nothing announces."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        Event().wait(LOOK_AGAIN_S)


def test_a_killed_runner_takes_its_work_along_and_the_run_starts_again(shell: Shell) -> None:
    shell.write("run.yaml", DAEMON.format(mark=shell.home))
    run = shell.tarmac("run", "run.yaml", "--detach", code=0).stdout.strip()
    shell.wait_until(run, "running")
    until(lambda: len(carrying(str(shell.home))) >= 2, "the work never started")
    first = set(carrying(str(shell.home)))
    os.kill(claimant_of(shell.home, run, 1), signal.SIGKILL)
    until(lambda: shell.json("show", run)["run"]["attempt"] == 2, "it never started again")
    shell.wait_until(run, "running")
    assert not first & set(carrying(str(shell.home))), "something of the first attempt is left"
    shown = shell.json("show", run)["run"]
    assert (shown["faults"], shown["failures"]) == (1, 0)
    shell.tarmac("stop", "--wait", run, code=0)
    assert carrying(str(shell.home)) == []


@pytest.mark.heavy
def test_of_64_runs_on_a_node_a_killed_runner_ends_its_own_within_two_seconds(shell: Shell) -> None:
    """N1: from the kill to the time of the event; the best of three, as the machine may be busy."""
    shell.write("run.yaml", "name: many\ncommand: sleep 600\n")
    shell.tarmac("run", "run.yaml", "--no-code", "--array", "0-63", "--detach", code=0)

    def members() -> dict[str, tuple[str, int]]:
        runs = shell.json("ls", "--expand", "--name", "many")["runs"]
        return {run["id"]: (run["state"], run["attempt"]) for run in runs}

    until(lambda: [*members().values()] == [("running", 1)] * 64, "some of them never ran")
    delays_s = []
    for victim in sorted(members())[::21][:3]:
        killed_at = time.time()
        os.kill(claimant_of(shell.home, victim, 1), signal.SIGKILL)
        until(lambda run=victim: members()[run][1] == 2, "it never started again")
        lost, *_ = (
            each for each in shell.json("show", victim, "--events")["events"] if each["at"] > killed_at
        )
        assert lost["detail"]["outcome"] == "lost", lost
        delays_s.append(lost["at"] - killed_at)
    assert min(delays_s) <= 2.0, delays_s
    assert [*members().values()].count(("running", 1)) == 61, "others were disturbed"
    shell.tarmac("stop", "--name", "many", "--yes", "--wait", code=0)


def test_a_killed_worker_is_named_with_its_signal(shell: Shell) -> None:
    shell.write("run.yaml", "name: victim\ncommand: |\n  echo about to go\n  kill -KILL $$\n")
    result = shell.tarmac("run", "run.yaml", code=128 + signal.SIGKILL)
    assert "SIGKILL" in result.stderr
    assert "main.0.0" in result.stderr


def test_a_worker_that_ignores_sigterm_leaves_after_its_grace(shell: Shell) -> None:
    script = "trap '' TERM; echo ready; while true; do sleep 0.2; done"
    shell.write("run.yaml", f'name: deaf\npause: {{grace: 1s}}\ncommand: "{script}"\n')
    run = shell.tarmac("run", "run.yaml", "--detach", code=0).stdout.strip()
    shell.wait_until(run, "running")
    began = time.monotonic()
    shell.tarmac("stop", "--wait", run, code=0)
    assert time.monotonic() - began < 10
    assert shell.json("show", run)["run"]["outcome"] == "stopped"
    assert all(node["slots_used"] == 0 for node in shell.json("nodes")["nodes"])


def test_a_worker_that_writes_without_end_hurts_nobody(shell: Shell) -> None:
    """I2: the last lines of a big log come at once."""
    shell.write("run.yaml", "name: chatty\ncommand: |\n  (yes || true) | head -c 100000000\n  echo the end\n")
    run = shell.tarmac("run", "run.yaml", "--detach", code=0).stdout.strip()
    shell.tarmac("wait", run, code=0)
    assert shell.tarmac("logs", run, "--tail", "2", code=0).stdout == "y\nthe end\n"
    log = next((shell.home / "runs" / run).rglob("main.0.0.log"))
    assert log.stat().st_size == 100_000_000 + len("the end\n")


def test_a_program_that_does_not_exist_is_named(shell: Shell) -> None:
    shell.write("run.yaml", "name: nothing\ncommand: [no-such-program, --flag]\n")
    result = shell.tarmac("run", "run.yaml")
    assert result.returncode not in (0, 2)
    assert "no-such-program" in result.stderr
    assert shell.json("show", "nothing")["run"]["cause"]["code"] == "command_not_found"


def test_code_that_is_not_there_is_refused_and_nothing_is_kept(shell: Shell) -> None:
    shell.write("run.yaml", "name: codeless\ncode: missing\ncommand: 'true'\n")
    result = shell.tarmac("run", "run.yaml", code=2)
    assert str(shell.directory / "missing") in result.stderr
    assert shell.json("ls", "--all")["runs"] == []


def test_code_that_leads_out_of_its_directory_ends_the_run_with_the_place(shell: Shell) -> None:
    shell.write("code/train.py", "print('hi')\n")
    (shell.directory / "code" / "secrets").symlink_to("/etc/passwd")
    shell.write("run.yaml", "name: leaky\ncode: code\ncommand: python3 train.py\n")
    result = shell.tarmac("run", "run.yaml")
    assert result.returncode in (1, 2)
    assert "secrets" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with small_disk(tmp_path / "home", "8m"):
        shell = Shell(tmp_path / "home", project)
        shell.write("run.yaml", "name: kept\ncommand: echo done\n")
        shell.tarmac("run", "run.yaml", code=0)
        filler = shell.home / "filler"
        with filler.open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"x" * 4096)
                except OSError:
                    break
        refused = 0
        for _ in range(40):  # the log of the database has some room left in it
            result = shell.tarmac("run", "run.yaml", "--detach")
            assert result.returncode in (0, 1)
            refused = refused + 1 if result.returncode else 0
            if refused == 2:
                break
        assert "full" in result.stderr
        assert result.stdout == ""
        accepted = [run["id"] for run in shell.json("ls", "--all")["runs"]]
        filler.unlink()
        shell.tarmac("wait", *accepted, code=0)
        shell.tarmac("run", "run.yaml", code=0)
        assert {run["id"] for run in shell.json("ls", "--all")["runs"]} > set(accepted)
        shell.tarmac("server", "stop")


FILLER = """\
name: filler
command: |
  while true; do head -c 65536 /dev/zero || true; done >> filler 2> /dev/null
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_runs_can_be_stopped_while_one_takes_every_block_of_the_disk(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with small_disk(tmp_path / "home", "48m"):
        shell = Shell(tmp_path / "home", project)
        shell.write("filler.yaml", FILLER)
        shell.write("other.yaml", "name: other\ncommand: sleep 600\n")
        others = [shell.tarmac("run", "--detach", "other.yaml", code=0).stdout.strip() for _ in range(3)]
        shell.tarmac("run", "--detach", "filler.yaml", code=0)
        wait_until(lambda: os.statvfs(shell.home).f_bavail < 32 or None, "the disk does not get full")
        for run in [*others, "filler"]:
            shell.tarmac("stop", "--now", "--wait", run, code=0)
        assert {run["outcome"] for run in shell.json("ls", "--all")["runs"]} == {"stopped"}
        shell.tarmac("server", "stop")
