"""Processes of an attempt, started by a runner that is the first of a namespace and by one that is not."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tarmac.node.kernel import namespaces
from tarmac.node.kernel.namespaces import ProcessNamespace, Way
from tarmac.node.processes import detach, wake_channel
from tarmac.node.processes.spawn import CannotStart, Command, spawn

REPORT = """
import json, os, signal
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
ignored = [n for n in (1, 13, 25) if signal.getsignal(n) == signal.SIG_IGN]
print(json.dumps({
    "cwd": os.getcwd(), "leads": os.getsid(0) == os.getpid() == os.getpgid(0), "blocked": len(blocked),
    "ignored": [n for n in ignored if n == 1], "said": os.environ["SAID"],
    "open": sorted(os.listdir("/proc/self/fd")),
}))
"""


def start(way: Way, do: Callable[[], str]) -> str:
    """What `do` returns in a runner of this kind."""
    hear, say = os.pipe()

    def become(_apart: ProcessNamespace | None) -> NoReturn:
        try:
            detach.close_inherited(but=frozenset({say}))
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
            for number in wake_channel.IGNORED:
                signal.signal(number, signal.SIG_IGN)
            try:
                told = do()
            except CannotStart as problem:
                told = f"{problem.exit_code} {problem}"
            os.write(say, told.encode())
        finally:
            os._exit(0)

    pid = namespaces.fork(way, become)
    os.close(say)
    with os.fdopen(hear, "rb") as heard:
        told = heard.read().decode()
    if way.by != namespaces.AS_USER:
        os.waitpid(pid, 0)
    return told


@pytest.fixture(params=["tied", "first of a namespace"])
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == "tied":
        return Way(None)
    found = namespaces.find_way()
    if found.by is None:
        pytest.skip(f"no namespaces of processes here: {found.why_not}")
    return found


def run(argv: list[str], directory: Path, env: dict[str, str]) -> str:
    os.waitpid(spawn(Command(argv, env, str(directory), log=str(directory / "log"))), 0)
    return (directory / "log").read_text()


def test_a_process_leads_a_session_in_its_directory_with_signals_as_they_come(
    way: Way, tmp_path: Path
) -> None:
    env = {"SAID": "é\udcff", "PATH": os.defpath}

    told = json.loads(start(way, lambda: run([sys.executable, "-I", "-c", REPORT], tmp_path, env)))

    assert told == {
        "cwd": str(tmp_path),
        "leads": True,
        "blocked": 0,
        "ignored": [],
        "open": ["0", "1", "2", "3"],  # the last one lists them
        "said": "é\udcff",
    }


def test_a_command_is_sought_on_the_path_of_the_run(way: Way, tmp_path: Path) -> None:
    (tmp_path / "no").mkdir()
    (tmp_path / "no" / "hello").write_text("not to be executed")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hello"
    program.write_text("#!/bin/sh\necho hello from here\n")
    program.chmod(0o755)

    env = {"PATH": f"{program}:{tmp_path}/nowhere:{tmp_path}/no:bin"}  # a file, nothing, no program, relative

    assert start(way, lambda: run(["hello"], tmp_path, env)) == "hello from here\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-command", "127 'no-such-command': there is no such command on the PATH /usr/bin:/bin"),
        ("./nothing", "127 './nothing': there is no such file"),
        ("./plain", "126 plain: Permission denied"),
        ("./odd", "126 odd: it is neither a program nor a script that begins with #!"),
        ("./lost", "127 lost: its first line names an interpreter that is not there"),
        ("./nul\0", "126 ./nul\0: Invalid argument"),
    ],
)
def test_what_cannot_be_started_is_said(way: Way, tmp_path: Path, command: str, told: str) -> None:
    for name, mode, text in (
        ("plain", 0o644, "x"),
        ("odd", 0o755, "x"),
        ("lost", 0o755, "#!/no/such/interpreter\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    said = start(way, lambda: run([command], tmp_path, {"PATH": "/usr/bin:/bin"}))

    assert said.replace(f"{tmp_path}/./", "") == told
