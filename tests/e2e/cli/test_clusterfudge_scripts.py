"""Around a Clusterfudge launch: its details, what goes wrong in a script, checks, the request as a file."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from launchscripts import in_lab, job, launched, script
from shell import Screen, Shell


@pytest.fixture(scope="module")
def lab(settled: Shell) -> Shell:
    """A user whose server stands for the cluster, in a project with a launch script."""
    return in_lab(settled)


def test_a_launch_is_described_and_stopped_by_any_of_its_names(lab: Shell) -> None:
    """C2, C5: details have processes, counts and logs; UUID, number and run id all name it."""
    after = """
import time
for name in (launch.id, launch.launch_id, launch.run_id):
    details = client.get_launch_details(name)
    assert details.launch.id == launch.id
while not any("ready" in log.contents for log in details.logs) or details.status_counts.processes.pending:
    time.sleep(0.05)
    details = client.get_launch_details(launch.id)
print(details.commands[0].job_name, details.logs[0].source, details.status_counts.processes)
client.stop_launch(launch.launch_id)
while client.get_launch_details(launch.id).launch.status != clusterfudge.LaunchStatus.LAUNCH_STATUS_STOPPED:
    time.sleep(0.05)
print(client.get_launch_details(launch.id).status_counts.processes)
"""
    commands = ["sh", "-c", "echo ready; exec sleep 600"]
    result, _ = launched(lab, script(job(commands, name="my job"), after=after))
    assert "my job my job.0.0 StatusCounts(pending=0, running=1" in result.stdout
    assert "running=0, succeeded=0, failed=0, stopped=1" in result.stdout


def test_what_goes_wrong_in_a_script_is_told_by_whom_it_concerns(lab: Shell) -> None:
    """C1: ours is a sentence with the line of the script; the script's own is a traceback of Python."""
    result, _ = launched(lab, script(), code=1)
    assert result.stderr == "error: launch.py:4: jobs must be non-empty\n"
    lab.write("own.py", "import clusterfudge\nprint('begun')\n1 / 0\n")
    own = subprocess.run(
        [sys.executable, "-m", "tarmac.cli", "launch", "own.py"],
        cwd=lab.directory,
        env=lab.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert own.returncode == 1
    assert own.stderr.startswith("Traceback")
    assert own.stderr.endswith("ZeroDivisionError: division by zero\n")
    missing = lab.tarmac("launch", "nothing.py", code=2)
    assert missing.stderr.startswith("error: nothing.py does not exist")


def test_ctrl_c_ends_the_script_and_leaves_the_launch_alone(lab: Shell) -> None:
    """C1: what was launched goes on."""
    lab.write("launch.py", script(job(["sleep", "600"]), after="import time\ntime.sleep(600)\n"))
    with Screen(lab, "launch", "launch.py") as screen:
        run = screen.wait_for(r"launched \d+ \S+ (\S+)")[1]
        screen.press("\x03")
        assert screen.end() == 130
    lab.wait_until(run, "running")
    lab.tarmac("stop", "--wait", run, code=0)


def test_a_script_is_checked_without_being_started(lab: Shell) -> None:
    """C1: mistakes have their line and column; other commands say what a script is for."""
    lab.write(
        "bad.py", script(job(["true"]).replace("['true']", "'python train.py'"), after="open('ran', 'w')")
    )
    result = lab.tarmac("check", "bad.py", code=2)
    assert re.search(r"error: bad\.py:7:\d+: Process: command is one text", result.stderr)
    assert 'hint: write ["python", "train.py"]' in result.stderr
    assert not (lab.directory / "ran").exists()
    lab.write("good.py", script(job(["true"])))
    assert lab.tarmac("check", "good.py", code=0).stdout == (
        "good.py: ok, a launch script: tarmac launch good.py\n"
    )
    for command in ("run", "convert"):
        assert "tarmac launch good.py" in lab.tarmac(command, "good.py", code=2).stderr


def test_a_request_is_a_run_file_too(lab: Shell) -> None:
    """C2: what `show --source` gives back is checked, converted and runs."""
    _, run = launched(lab, script(job(["echo", "once"]), rest='name="again",'), "--follow")
    lab.write("request.json", lab.tarmac("show", "--source", run, code=0).stdout)
    assert "a run file (clusterfudge) of again" in lab.tarmac("check", "request.json", code=0).stdout
    assert lab.tarmac("run", "request.json", code=0).stdout == "once\n"
    native = lab.tarmac("convert", "request.json", code=0).stdout
    lab.write("native.yaml", native)
    assert "system: clusterfudge" in native
    assert lab.tarmac("run", "native.yaml", code=0).stdout == "once\n"


@pytest.mark.heavy
def test_an_option_of_tarmac_behind_the_script_is_remarked_on(lab: Shell) -> None:
    """C1: what comes after the script is the script's; a remark says where it goes."""
    lab.write("own.py", "import sys\nprint(sys.argv[1:])\n")
    result = lab.tarmac("launch", "own.py", "--rehearse", "1x8")
    assert result.stdout == "['--rehearse', '1x8']\n"
    assert "tarmac launch --rehearse ... own.py" in result.stderr
    lab.write("own.py", "import sys\nprint(sys.argv[1:], 'takes --dry-run')\n")
    assert lab.tarmac("launch", "own.py", "--dry-run", "-f").stderr == ""
