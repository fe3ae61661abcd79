"""Lists and reasons as the commands print them, over a served control plane whose time the test moves."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from served import HELLO, Served, served
from shell import Screen, Shell
from sim_engine import Behaviour
from tarmac.cli.main import program


def tarmac(plane: Served, *arguments: str) -> Result:
    result = CliRunner(env={"TARMAC_HOME": str(plane.home.root)}).invoke(program, arguments)
    assert result.exit_code == 0, result.output
    return result


def test_no_run_yet_is_said_only_where_there_never_was_one(plane: Served) -> None:
    client = plane.client()
    for everything in ((), ("--as", "isc")):
        assert (
            tarmac(plane, "ls", *everything).stderr.strip() == "tarmac: no run yet: tarmac run -- echo hello"
        )
    client.stop(client.submit(HELLO).id)
    plane.advance(100 * 86_400.0)
    assert "hello" in tarmac(plane, "ls").stdout, "the newest that have ended, whenever that was"
    assert tarmac(plane, "ls", "--as", "isc").stderr.strip() == (
        "tarmac: no run is live or has ended lately: tarmac ls --all lists older ones"
    )


def test_a_terminal_shows_the_newest_runs_and_how_many_more_there_are(plane: Served, tmp_path: Path) -> None:
    """N5: at most 100 lines, of which an array is one; a pipe has every line, --limit N has N."""
    client, shell = plane.client(), Shell(home=plane.home.root, directory=tmp_path)
    client.submit_all([{"source": HELLO, "overrides": {"name": f"run-{number}"}} for number in range(130)])
    client.submit(HELLO, overrides={"name": "many", "array": "0-299"})

    def on_terminal(*options: str) -> list[str]:
        with Screen(shell, "ls", *options, variables={"NO_COLOR": "1"}) as screen:
            assert screen.end() == 0
        return [line for line in screen.text.splitlines() if line]

    _, first, *_, last, more = on_terminal()
    assert "many[0-299]" in first
    assert "run-31 " in last
    assert "31 more" in more
    assert len(on_terminal()) == 102
    assert "run-30 " in on_terminal("--expand", "--state", "queued", "--limit", "400")[-1]
    assert len(on_terminal("--limit", "120")) == 121
    assert len(tarmac(plane, "ls").stdout.splitlines()) == 132
    assert len(json.loads(tarmac(plane, "ls", "--json").stdout)["runs"]) == 430


def test_why_a_run_failed_comes_with_its_last_lines(tmp_path: Path) -> None:
    fails = Behaviour(duration_s=1.0, exit_code=3, output=b"loading\nno such file\x1b[2J\n")
    with served(tmp_path / "home", behaviour=lambda _launch: fails) as plane:
        run = plane.client().submit(HELLO).id
        for _ in range(2):
            plane.advance(2.0)
        printed = tarmac(plane, "why", run).stdout.splitlines()
    assert printed[-4:] == [
        "its last lines",
        "  | loading",
        "  | no such file\ufffd[2J",
        f"more: tarmac logs {run}",
    ]


def test_a_page_of_the_ledger_begins_before_an_entry(plane: Served) -> None:
    """Also without an account: the entries of all are one list."""
    for account in ("user:ada", "project:vision"):
        plane.client().grant_credits(account, 5.0)
    older, newer = sorted(entry.id for entry in plane.client().credit_entries())
    found = tarmac(plane, "credits", "ledger", "--before", str(newer), "--json")
    assert [entry["id"] for entry in json.loads(found.stdout)["entries"]] == [older]
