"""Launch scripts on every Python that a user's shell may have: what they import needs no tarmac there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tarmac.systems.clusterfudge.scripts.asking import SOCKET_VARIABLE
from tarmac.systems.clusterfudge.scripts.broker import answering, script_environment

VERSIONS = ("3.9", "3.10", "3.12", "3.13")
PYENV = Path.home() / ".pyenv/versions"

LAUNCH = {
    "id": "6f9619ff-8b86-5011-b42d-00cf4fc964ff",
    "launch_id": 7,
    "run_id": "r1",
    "status": "LAUNCH_STATUS_RUNNING",
    "jobs": [{"short_name": "a", "replicas": 1, "commands": [["true"]]}],
}
SCRIPT = """\
import sys
import clusterfudge
from clusterfudge.clusterfudge import AuthenticationError, SandboxParams
from clusterfudge.sandboxes import SandboxClient

assert "tarmac" not in sys.modules, "the stand-in needs nothing of tarmac"
client = clusterfudge.Client()
job = clusterfudge.Job("a", 1, [clusterfudge.Process(["true"], clusterfudge.Resources(h100=2))])
launch = client.create_launch(clusterfudge.CreateLaunchRequest(jobs=[job], name="é 🎉"))
print(launch.launch_id, launch.id, clusterfudge.LaunchStatus.Name(launch.status), launch.jobs[0].replicas)
details = client.get_launch_details(launch.id)
print(details.commands[0].exit_code, details.status_counts.processes.total, details.logs[0].contents)
try:
    client.create_launch(clusterfudge.CreateLaunchRequest(jobs=[job], name="busy"))
except clusterfudge.SchedulingError as error:
    error.prettyprint()
client.stop_launch(launch.launch_id)
client.stop_launch("unknown")
"""


def interpreter(version: str) -> str:
    """The path of an interpreter of this version; skips the test where there is none."""
    places = [*sorted(PYENV.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")]
    for place in filter(None, places):
        command = [str(place), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return str(place)
    pytest.skip(f"Python {version} is not installed here")


class Answers:
    """Answers as a gateway does, and keeps the questions."""

    def __init__(self) -> None:
        self.questions: list[Mapping[str, Any]] = []

    def reply(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.questions.append(question)
        if question["ask"] == "details":
            return {"answer": details(), "notices": []}
        if question["ask"] == "stop":
            unknown = {"kind": "request", "message": "there is no run 'unknown'", "hint": "tarmac ls"}
            return {"error": unknown} if question["launch"] == "unknown" else {"answer": None}
        if question["request"]["name"] == "busy":
            return {"error": {"kind": "scheduling", "message": "no room", "log": "h1: full"}}
        return {"answer": LAUNCH, "notices": ["launched"]}


def details() -> dict[str, Any]:
    command = {"id": "x", "hostname": "h1", "job_name": "a", "replica": 0, "process": 0}
    return {
        "launch": LAUNCH,
        "commands": [{**command, "state": "COMMAND_STATE_SUCCEEDED", "exit_code": 0}],
        "replicas": {"a": {"succeeded": 1, "total": 1}},
        "processes": {"succeeded": 1, "total": 1},
        "logs": [{"hostname": "h1", "source": "a.0.0", "contents": "hello"}],
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unchanged_script_runs_on_the_python_of_the_shell(version: str, tmp_path: Path) -> None:
    """C1: every class, answer and error, with warnings as errors; the last error is told in a sentence."""
    script = tmp_path / "launch.py"
    script.write_text(SCRIPT, encoding="utf-8")
    answers = Answers()
    with answering(answers.reply) as socket:
        environment = script_environment(
            {"PATH": os.environ["PATH"], "PYTHONUTF8": "1"}, socket=socket, variable=SOCKET_VARIABLE
        )
        result = subprocess.run(
            [interpreter(version), "-W", "error", script.name],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.stdout == (
        "7 6f9619ff-8b86-5011-b42d-00cf4fc964ff LAUNCH_STATUS_RUNNING 1\n"
        "0 1 hello\n\nno room\n\nScheduling log:\n---------------\nh1: full\n---------------\n"
    )
    assert result.stderr == (
        "tarmac: launched\nerror: launch.py:18: there is no run 'unknown'\n  hint: tarmac ls\n"
    )
    assert result.returncode == 1
    asked = answers.questions[0]
    assert asked["request"]["name"] == "é 🎉"
    assert asked["request"]["launch_script_body"] == SCRIPT
    assert asked["directory"] == str(tmp_path)
    assert not socket.exists(), "nothing is left behind"


def test_the_stand_in_comes_before_an_installed_client(tmp_path: Path) -> None:
    """C1: nobody has to uninstall anything; what the user has on the path stays on it."""
    theirs = tmp_path / "site"
    theirs.mkdir()
    (theirs / "clusterfudge.py").write_text("raise SystemExit('the real client')\n")
    (theirs / "own.py").write_text("value = 1\n")
    environment = script_environment(
        {"PATH": os.environ["PATH"], "PYTHONPATH": str(theirs)},
        socket=tmp_path / "s",
        variable=SOCKET_VARIABLE,
    )
    code = "import json, clusterfudge, own; print(json.dumps([clusterfudge.__file__, own.value]))"
    result = subprocess.run(
        [shutil.which("python3") or "python3", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    place, value = json.loads(result.stdout)
    assert Path(place).parent.name == "scripts"
    assert value == 1
