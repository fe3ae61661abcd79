"""Scripts run as written, and stop at the first failure. The argv is really executed here."""

from __future__ import annotations

import subprocess

import pytest

from tarmac.dialects.kinds import LARGEST_TEXT_BYTES
from tarmac.launch.compose import argv
from tarmac.model.spec import Command


def execute(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(Command(script=script)),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )


def test_a_list_is_taken_as_it_is() -> None:
    assert argv(Command(argv=("echo", "$HOME", "a b"))) == ("echo", "$HOME", "a b")


def test_a_script_keeps_its_lines() -> None:
    done = execute("if true; then\n  echo 'one  two'\nfi\ncat <<END\n  three\nEND\n")
    assert (done.returncode, done.stdout) == (0, "one  two\n  three\n")


@pytest.mark.parametrize("script", ["false\necho on", "false | cat\necho on", "(exit 1)\necho on"])
def test_a_script_stops_at_the_first_failure(script: str) -> None:
    done = execute(script)
    assert (done.returncode, done.stdout) == (1, "")


def test_the_exit_code_is_the_scripts_own() -> None:
    assert execute("exit 7").returncode == 7


def test_the_longest_script_still_starts() -> None:
    tail = "\necho done"
    done = execute("#" * (LARGEST_TEXT_BYTES - len(tail)) + tail)
    assert (done.returncode, done.stdout) == (0, "done\n")
