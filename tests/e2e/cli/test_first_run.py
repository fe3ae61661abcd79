"""From nothing: no server, no home. What a newcomer does first."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from shell import LIMIT_S, Shell, command

HELLO = "name: hello\ncommand: echo hello from $TARMAC_RUN_NAME\n"


def test_hello_from_nothing_and_once_more(shell: Shell) -> None:
    shell.write("run.yaml", HELLO)
    for _ in range(2):
        result = shell.tarmac("run", "run.yaml", code=0)
        assert result.stdout == "hello from hello\n"
        assert re.search(r"^tarmac: hello is run \S+$", result.stderr, re.MULTILINE)
        assert re.search(r"^tarmac: completed in [\d.]+m?s$", result.stderr, re.MULTILINE)
    assert [run["outcome"] for run in shell.json("ls")["runs"]] == ["completed", "completed"]


def test_two_at_once_from_nothing_share_one_server(shell: Shell) -> None:
    shell.write("run.yaml", HELLO)
    both = [shell.start("run", "run.yaml") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, out) == (0, "hello from hello\n"), err
    assert len(shell.json("ls")["runs"]) == 2


def test_a_command_alone_runs_in_a_copy_of_this_directory(shell: Shell) -> None:
    shell.write("train.py", "import os, sys; print(sys.argv[1:], os.environ['TARMAC_RUN_NAME'])")
    result = shell.tarmac("run", "--", "python3", "train.py", "--lr", "a b")
    assert result.stdout == "['--lr', 'a b'] train\n", result.stderr
    assert result.returncode == 0


def test_a_run_file_from_standard_input(shell: Shell) -> None:
    assert shell.tarmac("run", "-", stdin=HELLO, code=0).stdout == "hello from hello\n"


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("no-such-program", 127)]
)
def test_the_exit_code_is_the_runs_own(settled: Shell, script: str, code: int) -> None:
    result = settled.tarmac("run", "--", "bash", "-c", script, code=code)
    assert "error: bash failed" in result.stderr


def test_options_change_the_run(settled: Shell) -> None:
    settled.write("run.yaml", HELLO)
    result = settled.tarmac(
        "run", "run.yaml", "--name", "other", "-e", "A=b c", "-l", "team=x", "--", "bash", "-c", 'echo "$A"'
    )
    assert result.stdout == "b c\n", result.stderr
    run = settled.json("show", "@last")["run"]
    assert (run["name"], run["labels"]) == ("other", {"team": "x"})
    again = settled.tarmac("run", "--clone", "@last", "-e", "A=d", code=0)
    assert again.stdout == "d\n"


def test_a_key_makes_two_submissions_one_run(settled: Shell) -> None:
    settled.write("run.yaml", HELLO)
    first, second = (
        settled.tarmac("run", "run.yaml", "-d", "--idempotency-key", "k1", code=0).stdout for _ in range(2)
    )
    assert first == second


def test_whoever_reads_the_output_may_go_away(shell: Shell) -> None:
    gate = shell.gate()
    reader, writer = os.pipe()
    process = subprocess.Popen(
        command("run", "--", "bash", "-c", f"echo one; read line < {gate}; echo two; exec sleep 600"),
        cwd=shell.directory,
        env=shell.environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert os.read(reader, 100) == b"one\n"
    os.close(reader)
    gate.write_text("go on\n")
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 141
    assert "error" not in err
    shell.wait_until("@last", "running")
