"""ISC launch files as they are on a real Slurm with GPUs: cycle, which is the default, and interruptible."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from shell import Shell
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-isc")]

PREEMPTS = """PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=urgent Nodes=n[1-2] PriorityTier=10 PreemptMode=OFF State=UP
"""
TURN_S = 90
CYCLE = """isc_project_id = "prj-hail-250517"
experiment_name = "foo experiment"
gpus = 4
max_rapid_cycles = 2
command = '''
cat "$OUTPUT_PATH/state.$RANK" 2> /dev/null;
echo "turn $STRONG_CYCLE_COUNT $STRONG_COMPUTE_MODE $STRONG_CYCLE_TIME_MS in $SLURM_JOB_ID";
echo "rank $RANK of $IP_TO_RANK_MAPPING" &&
echo "left by turn $STRONG_CYCLE_COUNT" > "$OUTPUT_PATH/draft.$RANK" &&
mv "$OUTPUT_PATH/draft.$RANK" "$OUTPUT_PATH/state.$RANK" &&
exec sleep 3600'''
"""
INTERRUPTIBLE = """isc_project_id = "prj-hail-250517"
experiment_name = "long"
gpus = 4
compute_mode = "interruptible"
command = '''
echo "start $STRONG_CYCLE_COUNT $STRONG_COMPUTE_MODE $STRONG_CYCLE_TIME_MS" ;
[ ! -e "$OUTPUT_PATH/state" ] || exit 0 ;
touch "$OUTPUT_PATH/state" && exec sleep 3600'''
"""
WANTS_ALL = ("sbatch", "--parsable", "--nodes=2", "--gpus-per-node=2", "--output=/dev/null", "--wrap=true")


def ask_slurm(*command: str) -> str:
    """What a command of Slurm prints."""
    return subprocess.run(command, check=True, timeout=300, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def site(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Slurm of two nodes with two GPUs each, whose partition `urgent` preempts, as the cluster `site`."""
    try:
        with running_slurm(
            tmp_path / "slurm", cpus_per_node=4, gpus="a100:2", lines=PREEMPTS, accounting=True
        ) as variables:
            monkeypatch.setenv("SLURM_CONF", variables["SLURM_CONF"])
            settings = (f"directory={tmp_path / 'shared'}", "partition=batch")
            words = [word for setting in settings for word in ("--set", setting)]
            shell.tarmac("clusters", "add", "site", "--engine", "slurm", *words, code=0)
            yield variables["SLURM_CONF"]
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def test_i11_an_isc_file_that_names_no_mode_has_its_turns_in_one_job(shell: Shell, site: str) -> None:
    """I11, I15, I16: while another job waits for the nodes; with the words and the report of the ISC."""
    assert site
    file = shell.write("foo.isc", CYCLE)
    run_id = shell.tarmac("run", file, "--cluster", "site", "--detach", code=0).stdout.strip()
    shell.wait_until(run_id, "running")
    other = ask_slurm(*WANTS_ALL)
    shell.tarmac("wait", run_id, code=0, limit_s=400)
    shown = shell.json("show", run_id)
    first, second = shown["attempts"]
    assert first["native"]["id"] == second["native"]["id"]
    assert first["nodes"] == second["nodes"]
    assert all(each["leave_requested_at"] - each["started_at"] >= TURN_S for each in (first, second))
    assert shown["run"]["cycle_report"]["proven"]
    job = first["native"]["id"]
    log = shell.tarmac("logs", run_id, "--replica", "1", code=0).stdout
    ranks = json.loads(re.search(r"rank 1 of (\{.*\})", log)[1])  # type: ignore[index]
    assert ranks == {"127.0.0.1": 1}, "both nodes have the address of this machine: the last rank is left"
    assert f"turn 1 cycle {TURN_S}000 in {job}\n" in log
    assert "left by turn 1\n" in log.partition(f"turn 2 cycle {TURN_S}000 in {job}\n")[0]
    line = shell.tarmac("ls", "--as", "isc", code=0).stdout.splitlines()[1]
    assert line.split()[-5:] == ["cycle", "2", "/", "2", "completed"]
    began = re.search(r"StartTime=(\S+)", ask_slurm("scontrol", "show", "job", other))[1]  # type: ignore[index]
    assert datetime.fromisoformat(began).timestamp() >= second["ended_at"] - 1.0, "it had the nodes between"


def test_i12_an_interruptible_isc_file_is_a_job_that_may_be_preempted(shell: Shell, site: str) -> None:
    assert site
    file = shell.write("long.isc", INTERRUPTIBLE)
    shell.tarmac("run", file, "--cluster", "site", "--detach", code=0)
    shell.until("logs", "long", said="start 1 interruptible 0")
    shell.until("show", "long", "--json", said='"running"')
    why = " ".join(shell.tarmac("why", "long", code=0).stdout.split())
    assert "Cluster site gives no blocks of time" in why
    assert "or it is preempted there for another job" in why
    ask_slurm(*WANTS_ALL, "--wait", "--partition=urgent")
    shell.tarmac("wait", "long", code=0, limit_s=400)
    shown = shell.json("show", "long")
    assert [each["outcome"] for each in shown["attempts"]] == ["preempted", "completed"]
    assert shown["run"]["preemptions"] == 1
    assert "start 2 interruptible 0" in shell.tarmac("logs", "long", code=0).stdout
