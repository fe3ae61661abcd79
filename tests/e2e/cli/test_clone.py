"""A run that has ended goes on as a new one: the same spec and code, from its last checkpoint."""

from __future__ import annotations

from shell import Shell

PROGRAM = """\
import sys
import tarmac

last = tarmac.latest_checkpoint()
step = int((last / "step").read_text()) if last else 0
print("version 1, begins after step", step)
with tarmac.checkpoint(step=step + 5) as directory:
    (directory / "step").write_text(str(step + 5))
sys.exit(3 if step < 10 else 0)
"""


def test_an_ended_run_is_cloned_from_its_last_checkpoint(shell: Shell) -> None:
    shell.write("train.py", PROGRAM)
    shell.write("run.yaml", "name: steps\ncode: .\ncommand: python3 train.py\n")
    assert "begins after step 0" in shell.tarmac("run", "run.yaml", code=3).stdout
    first = shell.json("show", "steps")["run"]["id"]

    refused = shell.tarmac("resume", first, code=2).stderr
    assert "has ended (failed) and cannot be resumed" in refused
    assert f"tarmac run --clone {first} --resume" in refused

    shell.write("train.py", PROGRAM.replace("version 1", "version 2"))
    assert (
        "version 1, begins after step 5" in shell.tarmac("run", "--clone", first, "--resume", code=3).stdout
    )
    second = shell.json("show", "@last")["run"]
    assert [second["spec"]["input_artifacts"][0].rsplit(".", 1)[0]] == [f"{first}.checkpoint"]

    # From what that left, not from what it was given. Without --resume: the directory as it is now.
    resumed = shell.tarmac("run", "--clone", second["id"], "--resume", "-e", "X=1", code=0).stdout
    assert "version 1, begins after step 10" in resumed
    assert "version 2, begins after step 0" in shell.tarmac("run", "--clone", first, code=3).stdout


def test_what_cannot_be_begun_from_says_so(shell: Shell) -> None:
    shell.tarmac("run", "--", "true", code=0)
    refused = shell.tarmac("run", "--clone", "true", "--resume", code=2)
    assert "has no checkpoint artifact" in refused.stderr
    assert "--resume goes with --clone RUN" in shell.tarmac("run", "--resume", "--", "true", code=2).stderr
    gate = shell.gate()
    waiting = shell.tarmac("run", "--name", "waits", "-d", "--", "cat", str(gate), code=0).stdout.strip()
    refused = shell.tarmac("run", "--clone", waiting, "--resume", code=2)
    assert "has not ended" in refused.stderr
    shell.tarmac("stop", "--wait", waiting)


def test_fields_are_set_by_path_in_files_commands_and_clones(shell: Shell) -> None:
    shell.write("run.yaml", "name: paths\nenv: {A: one}\n")
    shown = shell.tarmac("run", "run.yaml", "--set", "command=echo $A $B", "--set", "env.B=two", code=0)
    assert shown.stdout == "one two\n"
    assert shell.tarmac("run", "--clone", "paths", "--set", "env.A=three", code=0).stdout == "three two\n"
    assert shell.tarmac("run", "--set", "env.C=4", "--", "sh", "-c", "echo $C", code=0).stdout == "4\n"
    refused = shell.tarmac("run", "--clone", "paths", "--set", "retrys=4", code=2).stderr
    assert "--set retrys: unknown field 'retrys'" in refused
    assert "did you mean 'retries'?" in refused
    checked = shell.tarmac("check", "run.yaml", "--set", "command=echo", "--set", "slots=x", code=2)
    assert "--set slots" in checked.stderr
    assert (
        "name: other"
        in shell.tarmac("convert", "run.yaml", "--set", "command=x", "--set", "name=other").stdout
    )
