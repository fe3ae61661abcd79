"""`tarmac shapes`, `providers` and `burst` on a real server whose provider never has a machine."""

from __future__ import annotations

from rented_nothing import WORDS, rent_nothing
from shell import Screen, Shell
from tarmac.client import Client

RENTS = "slots: cpu:2\nmode: burst\ntime_limit: 3h\ncommand: sleep 600\n"


def test_shapes_are_filtered_and_a_wrong_file_changes_none(shell: Shell) -> None:
    """I13: all mistakes of a file at once, with their places."""
    with Client(home=shell.home) as client:
        rent_nothing(shell, client)
    for options, names in (
        ([], ["lab-small", "lab-h100"]),
        (["--type", "gpu"], ["lab-h100"]),
        (["--on-demand"], ["lab-small"]),
        (["--region", "there", "--spot"], ["lab-h100"]),
        (["--provider", "other"], []),
    ):
        assert [each["id"] for each in shell.json("shapes", "ls", *options)["shapes"]] == names
    shell.write("bad.toml", '[lab-new]\nprovider = "lab"\nrate = "12"\nslots = 0\n')
    refused = shell.tarmac("shapes", "import", "bad.toml", code=2)
    for problem in ("bad.toml:3:8: lab-new.rate", "bad.toml:4:9: lab-new.slots", "'region' is missing"):
        assert problem in refused.stderr
    assert (
        "no provider 'cloud'"
        in shell.tarmac(
            *("shapes", "add", "far", "provider=cloud", "region=x", "machine=y", "slots=1", "rate=1"), code=2
        ).stderr
    )
    assert "--gpuhunt" in shell.tarmac("shapes", "refresh", "aws", code=2).stderr
    assert len(shell.json("shapes", "ls")["shapes"]) == 2
    assert shell.json("shapes", "show", "lab-h100")["processor"] == "EPYC <b>9654</b>"


def test_an_approval_shows_the_cost_and_asks_on_a_terminal(shell: Shell) -> None:
    with Client(home=shell.home) as client:
        rent_nothing(shell, client)
    shell.write("rents.yaml", RENTS)
    ids = [shell.tarmac("run", "--detach", "rents.yaml", code=0).stdout.strip() for _ in range(2)]
    assert {each["id"] for each in shell.json("burst", "ls")["staged"]} == {*ids}
    asked = shell.tarmac("burst", "approve", *ids, code=2)
    assert asked.stderr.count("0.36 USD") == 2
    assert "Add -y" in asked.stderr
    with Screen(shell, "burst", "approve", *ids) as screen:
        screen.wait_for(r"approve 2 runs: .*\[y/N\]")
        screen.press("n\n")
        screen.end()
    assert shell.json("burst", "ls")["rentals"] == []
    with Screen(shell, "burst", "approve", ids[0]) as screen:
        screen.wait_for(r"0\.12 USD +0\.36 USD")
        screen.wait_for(r"\[y/N\]")
        screen.press("y\n")
        screen.wait_for("is approved")
        assert screen.end() == 0
    mixed = shell.tarmac("burst", "approve", "--yes", "nothing", ids[1], code=2)
    assert "no run 'nothing'" in mixed.stderr
    assert f"({ids[1]}) is approved" in mixed.stdout
    shell.until("burst", "show", ids[0], said=f"no_capacity: the command create: {WORDS}")
    assert shell.json("burst", "ls")["staged"] == []
