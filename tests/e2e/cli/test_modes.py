"""What a person reads of turns, of preemptions and cycle reports, over real runs on a short clock (I11,
D14).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import LIMIT_S, Shell

SETTINGS = """
[[local]]
nodes = 1
slots = 1

[pools.default]
preemption = true
guaranteed = "1s"
turn = "2s"
"""
PROVING = """
import pathlib, tarmac
before = tarmac.latest_checkpoint()
print("step", (before / "step").read_text() if before else 0, flush=True)
with tarmac.checkpoint(step=1) as directory:
    (directory / "step").write_text("1")
while not tarmac.should_pause():
    pass
"""
CYCLE = (
    "name: proving\nmode: cycle\nmax_rapid_cycles: 2\nslots: 1\ncode: .\npause: {signal: none, grace: 20s}\n"
)
SLEEPER = "slots: 1\ncommand: exec sleep 600\n"


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Shell]:
    """A user whose cluster has one slot, and turns of two seconds."""
    shell = Shell(tmp_path / "home", tmp_path / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SETTINGS)
    yield shell
    shell.close()


def test_turns_are_told_and_judged_with_milestones(short: Shell) -> None:
    """I11: `completed` says what was shown; turns are counted apart from preemptions and retries."""
    short.write("prove.py", PROVING)
    short.write("prove.yaml", f"{CYCLE}command: exec python3 prove.py\n")
    followed = short.tarmac("run", "prove.yaml", code=0)
    assert followed.stdout == "step 0\nstep 1\n"
    told = followed.stderr.splitlines()
    assert told[0].endswith("(cycle, 2 turns)")
    assert [line for line in told if "turn 1" in line or "turn 2" in line] == [
        "tarmac: running on node1, turn 1 of 2",
        "tarmac: turn 1 of 2 is over: its workers have been asked to leave",
        "tarmac: running on node1, turn 2 of 2",
        "tarmac: turn 2 of 2 is over: its workers have been asked to leave",
    ]
    assert told[-1].startswith("tarmac: completed after 2 of 2 turns in ")
    assert told[-1].endswith(": pause and resume proven")
    tail = short.tarmac("logs", "proving", "--role", "main", "--replica", "0", "--tail", "1", code=0)
    assert tail.stdout == "step 1\n", "of all turns together the last line"
    run = short.json("show", "proving")["run"]
    assert (run["turns"], run["preemptions"], run["failures"], run["faults"]) == (2, 0, 0, 0)
    assert (
        run["cycle_report"]["committed"],
        run["cycle_report"]["resumed"],
        run["cycle_report"]["proven"],
    ) == (True,) * 3
    page = short.tarmac("show", "proving", code=0).stdout
    report = r"turns     2 of 2\nreport    pause and resume proven: first output (after \S+|at once), "
    assert re.search(report, page)


def test_what_turns_have_not_shown_is_told(short: Shell) -> None:
    """I11: without a checkpoint nothing is proven, and nothing failed either."""
    short.write(
        "sleep.yaml", f"name: idle\nmode: cycle\nmax_rapid_cycles: 1\npause: {{grace: 5s}}\n{SLEEPER}"
    )
    followed = short.tarmac("run", "sleep.yaml", code=0)
    assert "completed, pause and resume unproven: no checkpoint was left" in followed.stderr
    assert (
        "unproven: no output was seen, no checkpoint was left" in short.tarmac("show", "idle", code=0).stdout
    )


def test_a_preempted_run_says_to_whom_it_gave_way(short: Shell) -> None:
    """D14: a follower of a run that is preempted reads it; its page counts it apart."""
    sleeper = SLEEPER.replace("exec", "echo begun; exec")
    short.write("low.yaml", f"name: low\npause: {{grace: 5s}}\n{sleeper}")
    low = short.tarmac("run", "low.yaml", "-d", code=0).stdout.strip()
    short.wait_until(low, "running")
    follower = short.start("logs", "-f", low)
    assert follower.stdout is not None
    assert "begun" in follower.stdout.readline()
    urgent = short.tarmac(
        "run", "low.yaml", "-d", "--name", "urgent", "--priority", "9", code=0
    ).stdout.strip()
    short.wait_until(low, "queued")
    assert urgent in short.tarmac("why", low, code=0).stdout
    short.tarmac("stop", "--wait", urgent, code=0)
    short.wait_until(low, "running")
    run = short.json("show", low)["run"]
    assert (run["preemptions"], run["failures"]) == (1, 0)
    assert "preempted once (costs no retry)" in short.tarmac("show", low, code=0).stdout
    history = short.tarmac("show", low, "--events", code=0).stdout
    assert f"reason make_way, for {urgent}" in history
    short.tarmac("stop", "--wait", low, code=0)
    told = follower.communicate(timeout=LIMIT_S)[1]
    assert f"preempted by urgent ({urgent})" in told
    assert "queued again" in told
