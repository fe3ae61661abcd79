"""Arrays at the command line: submitted, listed, shown, stopped and removed as one, and member by member."""

from __future__ import annotations

import json

from shell import Shell


def test_an_array_from_submission_to_removal(shell: Shell) -> None:
    run = shell.tarmac(
        *("run", "--no-code", "--name", "sweep", "--array", "0-4:2%2", "--"),
        *("sh", "-c", "echo $TARMAC_ARRAY_INDEX of $TARMAC_ARRAY_COUNT; exit $TARMAC_ARRAY_INDEX"),
    )
    assert run.returncode == 4, run.stderr
    assert "error: sweep[2] failed" in run.stderr
    assert "sweep[0-4:2%2]: 1 completed, 2 failed" in run.stderr
    listed = shell.tarmac("ls", code=0).stdout
    assert "sweep[0-4:2%2]" in listed
    assert "1 completed, 2 failed" in listed
    expanded = shell.tarmac("ls", "--expand", code=0).stdout
    assert all(f"sweep[{index}]" in expanded for index in (0, 2, 4))
    array = shell.json("show", "sweep")["array"]
    assert (array["total"], array["counts"]) == (3, {"completed": 1, "failed": 2})
    assert "1 completed, 2 failed" in shell.tarmac("show", array["id"], code=0).stdout
    member = shell.json("show", "sweep[2]")["run"]
    assert (member["array_id"], member["array_index"], member["exit_status"]) == (array["id"], 2, 2)
    assert shell.tarmac("logs", "sweep[2]", code=0).stdout == "2 of 3\n"
    assert shell.tarmac("logs", "sweep", code=0).stdout == "0 of 3\n2 of 3\n4 of 3\n"
    assert shell.tarmac("wait", "sweep").returncode == 4
    assert "sweep[0-4:2%2]" in shell.tarmac("rm", "-y", "sweep", code=0).stdout
    shell.tarmac("run", "--no-code", "--name", "pair", "--array", "0-1", "--", "true", code=0)
    removed = shell.tarmac("rm", "-y", "--name", "pair", code=0).stdout
    assert "pair[0] (" in removed
    assert "pair[1] (" in removed
    assert json.loads(shell.tarmac("ls", "--all", "--json", code=0).stdout)["runs"] == []


def test_a_live_array_is_one_line_and_is_paused_resumed_and_stopped_as_one(shell: Shell) -> None:
    array = shell.tarmac(
        "run", "-d", "--no-code", "--name", "long", "--array", "0-9%2", "--", "sleep", "600", code=0
    ).stdout.strip()
    assert array.startswith("a")
    assert "long[10 runs]" in shell.tarmac("queue", code=0).stdout
    assert "long[7]" in shell.tarmac("queue", "--expand", code=0).stdout
    assert "as many members of its array run" in shell.tarmac("why", "long[9]", code=0).stdout
    assert "10 paused" in shell.tarmac("pause", "--wait", "long", code=0).stdout
    assert shell.tarmac("stop", "long[3]", code=0).stdout.startswith("long[3] (")
    shell.tarmac("resume", array, code=0)
    assert "10 stopped" in shell.tarmac("stop", "--wait", "long", code=0).stdout
    refused = shell.tarmac("run", "-d", "--no-code", "--array", "9-0", "--", "true", code=2)
    assert "9-0 begins after its end" in refused.stderr
