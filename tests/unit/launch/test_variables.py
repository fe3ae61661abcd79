"""docs/using/variables.md explains each variable once, and each is really set."""

from __future__ import annotations

import pages
from launches import launch, node, placement, workers
from tarmac.dialects.names import CONTRACT_VARIABLES, reserved

LISTED = pages.variables("variables.md")


def test_a_worker_gets_what_the_page_lists_and_nothing_else() -> None:
    source = "environment: {venv: .venv}\nmode: cycle\nstop_on_nan: true\nslots: 1\ncommand: a"
    inherited = {"PATH": "/bin", "CONDA_PREFIX": "/conda"}
    placements = [placement("main", 0, "n1", 0)]
    (worker,) = workers(launch(source, [node("n1", "127.0.0.2")], placements, inherited, allotted_s=90.0))
    assert set(worker.env) == {name for name, giver in LISTED.items() if giver in ("contract", "default")}


def test_a_run_file_may_not_set_what_is_always_given() -> None:
    given = {name for name, giver in LISTED.items() if giver in ("contract", "runner", "array", "trial")}
    assert all(reserved(name) for name in given)
    assert given >= CONTRACT_VARIABLES
    assert not any(reserved(name) for name in LISTED.keys() - given)
