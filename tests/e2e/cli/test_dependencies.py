"""`--after` at the command line: what is typed, and what a person sees of a run that waits for another."""

from __future__ import annotations

from shell import Shell


def test_a_chain_of_runs_typed_by_hand(shell: Shell) -> None:
    """A run that waits is told by `why`, `queue` and `show`; it starts when the other has completed."""
    go = shell.directory / "go"
    waits = f"until [ -e {go} ]; do sleep 0.1; done"
    prep = shell.tarmac(
        "run", "-d", "--no-code", "--name", "prep", "--", "sh", "-c", waits, code=0
    ).stdout.strip()
    train = shell.tarmac(
        "run", "-d", "--no-code", "--after", "prep", "--", "echo", "trained", code=0
    ).stdout.strip()
    last = shell.tarmac(
        "run", "-d", "--no-code", "--after", f"{prep}:ended", "--after", "@last", "--", "echo", "last", code=0
    ).stdout.strip()
    assert f"it starts after prep ({prep}) has completed" in shell.tarmac("why", train, code=0).stdout
    assert "after prep +1" in shell.tarmac("queue", code=0).stdout
    shown = shell.tarmac("show", last, code=0).stdout
    assert f"after     prep ({prep}, ended: awaited), echo ({train}, completed: awaited)" in shown
    go.touch()
    assert shell.tarmac("wait", last, code=0).returncode == 0
    assert [each["met"] for each in shell.json("show", last)["run"]["dependencies"]] == [True, True]
    assert shell.tarmac("logs", train, code=0).stdout == "trained\n"


def test_what_can_not_be_waited_for_is_refused_and_what_failed_is_the_cause(shell: Shell) -> None:
    unknown = shell.tarmac("run", "-d", "--no-code", "--after", "nobody", "--", "true", code=2)
    assert "after: there is no run 'nobody'" in unknown.stderr
    wrong = shell.tarmac("run", "-d", "--no-code", "--after", "a:started", "--", "true", code=2)
    assert "RUN, RUN:completed or RUN:ended" in wrong.stderr
    broken = shell.tarmac("run", "-d", "--no-code", "--name", "broken", "--", "false", code=0).stdout.strip()
    ended = shell.tarmac("run", "--no-code", "--after", "broken", "--", "true")
    assert ended.returncode == 1
    assert f"it was to start after broken ({broken}) has completed, and that failed" in ended.stderr
