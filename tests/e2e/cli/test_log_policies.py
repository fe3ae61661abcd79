"""Lines in the logs of a run that fails, and what it asks to be done about them."""

from __future__ import annotations

from shell import Shell

POLICIES = """\
log_policies:
  - {name: bad disk, pattern: "^EIO on .*", action: exclude_node}
  - {name: wrong data, pattern: FileNotFoundError, action: cancel_retries}
  - {name: a word, pattern: never written}
"""


def test_a_run_keeps_away_from_the_node_of_a_line(shell: Shell) -> None:
    shell.write(
        "run.yaml",
        "name: disk\nslots: 1\nretries: 3\n" + POLICIES + "command: |\n"
        "  if [ $TARMAC_ATTEMPT = 1 ]; then echo EIO on sda; exit 3; fi; echo fine\n",
    )
    result = shell.tarmac("run", "run.yaml", "--rehearse", "2x1", code=0)
    assert result.stdout == "EIO on sda\nfine\n"
    known = shell.json("show", "disk")
    first, second = known["attempts"]
    assert known["run"]["excluded_nodes"] == first["nodes"] != second["nodes"]
    found = (
        f"log policy 'bad disk' found on {first['nodes'][0]}: EIO on sda (the run keeps away from this node)"
    )
    assert first["cause"]["message"].endswith(found)
    assert first["cause"]["log_matches"] == [
        {"policy": "bad disk", "node": first["nodes"][0], "line": "EIO on sda", "action": "exclude_node"}
    ]
    assert "keeps away from" in shell.tarmac("show", "disk").stdout


def test_a_run_ends_where_no_node_is_left(shell: Shell) -> None:
    shell.write(
        "run.yaml",
        "name: alone\nslots: 1\nretries: 3\n" + POLICIES + "command: echo EIO on sda >&2; exit 3\n",
    )
    shell.tarmac("run", "run.yaml", "--rehearse", "1x1", "--detach", code=0)
    shell.tarmac("wait", "alone")
    known = shell.json("show", "alone")
    assert (known["run"]["outcome"], known["run"]["cause"]["code"]) == ("failed", "never_fits")
    assert ": it is one that the run keeps away from" in known["run"]["cause"]["message"]


def test_a_run_is_not_tried_again(shell: Shell) -> None:
    shell.write(
        "run.yaml",
        "name: data\nretries: 3\n" + POLICIES + "command: python3 -c 'open(\"/no/data\")'\n",
    )
    result = shell.tarmac("run", "run.yaml", "--rehearse", "1x1", code=1)
    assert "not tried again, by log policy 'wrong data' (3 retries are left)" in result.stderr
    assert len(shell.json("show", "data")["attempts"]) == 1


def test_what_is_wrong_in_a_policy_is_said_at_once(shell: Shell) -> None:
    shell.write(
        "run.yaml",
        "command: a\nlog_policies:\n  - {pattern: '(', action: retry}\n  - {name: x}\n",
    )
    errors = shell.tarmac("check", "run.yaml", code=2).stderr
    assert "run.yaml:3:15: log_policies[0].pattern: this is not a regular expression" in errors
    assert "cancel_retries" in errors
    assert "log_policies[1]: 'pattern' is missing" in errors
