"""The servers of a started cluster as a table, and a line of what is done to them."""

from __future__ import annotations

from msgspec.structs import replace

from tarmac import api
from tarmac.cli.commands.clusters import MACHINES, change_line
from tarmac.cli.views.table import table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import MachineState

NOW = 1_000_000.0


def _machine(name: str, **fields: object) -> api.ClusterMachine:
    usual = api.ClusterMachine(
        name=name,
        role="worker",
        state=MachineState.UP,
        address="10.0.0.1",
        slots=None,
        pid=4711,
        since=NOW - 7200,
        problem=None,
    )
    return replace(usual, **fields)


def test_each_server_has_a_line_with_what_is_wrong() -> None:
    machines = [
        _machine("gpu1", role="head", slots=8),
        _machine("gpu2", state=MachineState.DOWN, pid=None, since=None, problem="Ray\nended"),
    ]
    head, first, second = table_text(MACHINES, machines, Terminal(width=100), now=NOW).splitlines()
    assert head.split() == ["HOST", "ROLE", "RAY", "SINCE", "SLOTS", "PID", "ADDRESS", "PROBLEM"]
    assert first.split() == ["gpu1", "head", "up", "2h", "ago", "8", "4711", "10.0.0.1"]
    assert second.split()[:4] == ["gpu2", "worker", "down", "10.0.0.1"]
    assert "Ray" in second, "in one line"


def test_what_is_done_stands_behind_the_name_of_its_server() -> None:
    assert change_line(api.ChangeLine("gpu1", "head started\x1b[2J")).startswith("gpu1: head started")
    assert "\x1b" not in change_line(api.ChangeLine("gpu1", "\x1b[2J"))
