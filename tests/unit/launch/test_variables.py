"""Every variable is declared once, explained in docs/variables.md, and really set."""

from __future__ import annotations

from pathlib import Path

from launches import launch, node, placement, workers
from tarmac.dialects.names import CONTRACT_VARIABLES, reserved
from tarmac.launch.variables import VARIABLES, Giver, markdown

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_has_the_table_of_the_code() -> None:
    assert markdown() in (DOCS / "variables.md").read_text(encoding="utf-8"), (
        "paste the output of: python -c 'import tarmac.launch.variables as v; print(v.markdown())'"
    )


def test_no_variable_is_declared_twice() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(set(names)) == len(names)


def test_a_worker_gets_what_is_declared_and_nothing_else() -> None:
    source = "environment: {venv: .venv}\nmode: cycle\nstop_on_nan: true\nslots: 1\ncommand: a"
    inherited = {"PATH": "/bin", "CONDA_PREFIX": "/conda"}
    placements = [placement("main", 0, "n1", 0)]
    (worker,) = workers(launch(source, [node("n1", "127.0.0.2")], placements, inherited, allotted_s=90.0))
    declared = {item.name for item in VARIABLES if item.giver in (Giver.CONTRACT, Giver.DEFAULT)}
    assert set(worker.env) == declared


def test_a_run_file_may_not_set_what_is_always_given() -> None:
    given = {item.name for item in VARIABLES if item.giver in (Giver.CONTRACT, Giver.RUNNER)}
    assert all(reserved(name) for name in given)
    assert given >= CONTRACT_VARIABLES
    assert not any(reserved(item.name) for item in VARIABLES if item.giver in (Giver.DEFAULT, Giver.NODE))
