"""`tarmac exec` as a person uses it: pipes, a terminal, Ctrl-C, and connections that break off."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from processes import ended
from shell import LIMIT_S, Screen, Shell, command
from tarmac.client import Client
from terminals import try_terminal


@pytest.fixture(scope="module")
def lasting(settled: Shell) -> str:
    """A run that lasts, shared by the tests of this module."""
    run = settled.tarmac("run", "-d", "--name", "lasting", "--", "sleep", "600", code=0).stdout.strip()
    settled.wait_until(run, "running")
    return run


def test_output_errors_and_exit_code_are_the_commands_own(settled: Shell, lasting: str) -> None:
    result = settled.tarmac("exec", lasting, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")
    result = settled.tarmac("exec", lasting, "--", "sh", "-c", "kill -KILL $$")
    assert result.returncode == 128 + signal.SIGKILL
    result = settled.tarmac("exec", lasting, "--", "no-such-command", code=127)
    assert "'no-such-command': no such file or directory" in result.stderr


def test_input_is_passed_on_to_its_end_if_asked(settled: Shell, lasting: str) -> None:
    text = "0123456789abcde\n" * 100_000
    assert settled.tarmac("exec", "-i", lasting, "--", "cat", stdin=text, code=0).stdout == text
    assert settled.tarmac("exec", lasting, "--", "cat", stdin=text, code=0).stdout == ""


def test_a_terminal_takes_keys_and_its_size(settled: Shell, lasting: str) -> None:
    try_terminal(settled, lasting)


def test_ctrl_c_without_a_terminal_of_its_own_goes_to_the_command(settled: Shell, lasting: str) -> None:
    script = "trap 'echo caught; exit 6' INT; echo ready; sleep 600 & wait"
    with Screen(settled, "exec", lasting, "--", "sh", "-c", script) as screen:
        screen.wait_for("ready")
        screen.press("\x03")
        screen.wait_for("caught")
        assert screen.end() == 6


def test_a_client_that_is_killed_takes_its_command_along(settled: Shell, lasting: str) -> None:
    seconds = f"1{os.getpid()}"
    script = f"trap '' HUP; echo ready; sleep {seconds}; sleep {seconds}"
    with subprocess.Popen(
        command("exec", lasting, "--", "sh", "-c", script),
        cwd=settled.directory,
        env=settled.environment(),
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        pid = sleeper(seconds)
        client.kill()
    assert ended(pid)


def test_a_server_that_is_killed_ends_its_sessions_and_says_so(shell: Shell) -> None:
    shell.tarmac("server", "start", code=0)
    run = shell.tarmac("run", "-d", "--", "sleep", "600", code=0).stdout.strip()
    shell.wait_until(run, "running")
    seconds = f"2{os.getpid()}"
    script = f"echo ready; sleep {seconds}; sleep {seconds}"
    with Screen(shell, "exec", "-it", run, "--", "sh", "-c", script) as screen:
        screen.wait_for("ready")
        pid = sleeper(seconds)
        os.kill(int((shell.home / "server.lock").read_text()), signal.SIGKILL)
        assert screen.end() == 1
        assert "the connection to the server broke off" in screen.text
        assert screen.is_cooked()
    assert ended(pid)
    assert shell.json("show", run)["run"]["state"] == "running", "the run itself goes on"


def test_a_run_that_has_ended_is_refused_in_plain_words(settled: Shell) -> None:
    run = settled.tarmac("run", "-d", "--", "true", code=0).stdout.strip()
    settled.tarmac("wait", run, code=0)
    result = settled.tarmac("exec", run, "--", "ls", code=2)
    assert "has ended (completed): there is nothing to open a session beside" in result.stderr


def test_a_terminal_is_asked_for_where_there_is_none(settled: Shell, lasting: str) -> None:
    result = settled.tarmac("exec", "-t", lasting, "--", "ls", code=2)
    assert "standard input is none" in result.stderr


def test_who_opened_a_session_is_in_the_history_without_secrets(settled: Shell) -> None:
    settled.tarmac("secret", "set", "key", stdin="hush-hush-1234", code=0)
    run = settled.tarmac("run", "-d", "--secret", "KEY=key", "--", "sleep", "600", code=0).stdout.strip()
    settled.wait_until(run, "running")
    script = 'test "$KEY" = hush-hush-1234 && echo same'
    result = settled.tarmac("exec", run, "--", "sh", "-c", script, code=0)
    assert result.stdout == "same\n", "the session has the secrets of its worker"
    with Client(home=settled.home, start=False) as client:
        history = client.events(run)
    (event,) = [event for event in history if event.event == "session_opened"]
    assert event.actor
    assert event.detail["command"][:2] == ["sh", "-c"]
    assert b"hush" not in msgspec.json.encode(event)


def sleeper(seconds: str) -> int:
    """The pid of the one `sleep SECONDS` there is, once there is."""
    argv = [b"sleep", seconds.encode(), b""]
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone meanwhile
                if (path / "cmdline").read_bytes().split(b"\0") == argv:
                    return int(path.name)
    raise AssertionError(f"there is no sleep {seconds}")
