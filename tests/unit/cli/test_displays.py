"""`--as`: names of systems, the word each gives a state, and lines as its own commands print them."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from answers import a_run, a_summary, an_attempt
from tarmac.api.experiment_operations import Numbers
from tarmac.cli.commands.ls import ls
from tarmac.cli.views.terminal import Terminal
from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import RUN_OUTCOMES, CauseCode
from tarmac.systems.determined.display import DeterminedDisplay
from tarmac.systems.displays import DISPLAYS, display, statuses_of, with_statuses
from tarmac.systems.listing import report_of

NOW = 1_700_003_600.0


def summary(**changes: Any) -> dict[str, Any]:
    return {
        "id": "r1",
        "name": "foo_experiment",
        "project": "p",
        "user": "ada",
        "dialect": "isc",
        "state": "running",
        "outcome": None,
        "mode": "cycle",
        "priority": 0,
        "slots": 48,
        "attempt": 1,
        "cluster": "c",
        "pool": None,
        "created_at": 1_700_000_000.0,
        "started_at": 1_700_000_001.0,
        "ended_at": None,
        "message": None,
        "cause_code": None,
        "preemptions": 0,
        "turns": 0,
        "max_turns": 3,
        "system": "isc",
        "slot_type": None,
        "image": None,
        **changes,
    }


@pytest.mark.parametrize(("given", "meant"), [("mcil", "mcli"), ("ISK", "isc")])
def test_an_unknown_system_is_answered_with_the_nearest(given: str, meant: str) -> None:
    result = CliRunner().invoke(ls, ["--as", given])
    assert result.exit_code == 2
    if meant in DISPLAYS:
        assert f"did you mean {meant}?" in result.output


@pytest.mark.parametrize("system", sorted(DISPLAYS))
def test_every_display_has_a_word_for_whatever_a_run_may_be(system: str) -> None:
    shown = display(system)
    for mode in Mode:
        for state in set(RunState) - {RunState.ENDED}:
            for attempt in (0, 2):
                assert shown.status(Report(state=state, mode=mode, attempt=attempt))
        for outcome in RUN_OUTCOMES:
            for cause in (None, *CauseCode):
                report = Report(state=RunState.ENDED, outcome=outcome, cause=cause, mode=mode)
                assert shown.status(report)


@pytest.mark.parametrize("system", sorted(DISPLAYS))
def test_every_display_lists_runs_of_any_dialect_in_any_state(system: str) -> None:
    runs = [
        summary(id=f"r{state}", state=state, mode=mode, max_turns=3 if mode == "cycle" else None)
        for state in RunState
        if state is not RunState.ENDED
        for mode in Mode
    ]
    runs += [
        summary(id=f"r{outcome}", state="ended", outcome=outcome, ended_at=NOW) for outcome in RUN_OUTCOMES
    ]
    listed = display(system).runs([a_summary(run) for run in runs], Terminal())
    assert all("foo_experiment" in listed for _ in runs)


def test_a_list_can_be_narrowed_by_every_word_of_a_system() -> None:
    assert statuses_of("isc") == [
        *("burst_staged", "cancelled", "cancelling", "completed", "enqueued", "failed", "interrupting"),
        *("paused", "running", "strong_failed"),
    ]
    assert {"QUEUED", "ERROR", "CANCELED"} <= set(statuses_of("determined"))
    assert "FailedPull" in statuses_of("mcli")


def test_json_has_the_systems_own_word() -> None:
    (shown,) = with_statuses([a_run(summary(state="queued", attempt=1))], "isc")
    assert (shown["state"], shown["status"]) == ("queued", "paused")


def test_a_report_is_the_same_of_a_run_and_of_its_line_in_a_list() -> None:
    line = summary(state="ended", outcome="failed", cause_code="node_lost")
    run = {key: value for key, value in line.items() if key != "cause_code"}
    assert report_of(a_summary(line)) == report_of(a_run({**run, "cause": {"code": "node_lost"}}))
    assert report_of(a_summary(line)).cause is CauseCode.NODE_LOST


def test_isc_lists_its_columns() -> None:
    listed = display("isc").runs([a_summary(summary())], Terminal())
    assert [line.split() for line in listed.splitlines()] == [
        ["ID", "Name", "Created", "GPUs", "Mode", "Cycle", "Status"],
        ["r1", "foo_experiment", "2023-11-14", "22:13:20", "48", "cycle", "1", "/", "3", "running"],
    ]


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"config": {"name": "grid", "hyperparameters": {"lr": {"type": "const", "val": 0.1}}}}, "lr=0.1"),
        ({}, "lr=0.2"),
    ],
)
def test_determined_shows_a_trial_with_its_parameters(facts: dict[str, Any], shown: str) -> None:
    spec = {"parameters": {"lr": 0.2}, "retries": 2, "conventions": {"system": "determined", "facts": facts}}
    run = summary(state="ended", outcome="completed", mode="batch", slots=1) | {
        **{"spec": spec, "failures": 0, "cause": None},
    }
    lines = (
        DeterminedDisplay({"r1": Numbers(experiment=3, trial=7)})
        .run(a_run(run), [an_attempt({"nodes": ["node1"]})], Terminal())
        .splitlines()
    )
    assert lines[0].split() == ["ID", "3"]
    cells = [cell.strip() for cell in lines[-1].split("|")]
    assert cells[:6] == ["7", "COMPLETED", shown, "1", "0", "node1"]


@pytest.mark.parametrize(
    ("word", "report"),
    [
        ("enqueued", Report(state=RunState.QUEUED, mode=Mode.CYCLE)),
        ("enqueued", Report(state=RunState.PENDING, mode=Mode.INTERRUPTIBLE)),
        ("burst_staged", Report(state=RunState.QUEUED, mode=Mode.BURST, staged=True)),
        ("enqueued", Report(state=RunState.QUEUED, mode=Mode.BURST)),
        ("running", Report(state=RunState.RUNNING, attempt=1)),
        ("running", Report(state=RunState.PREEMPTING, attempt=1, mode=Mode.CYCLE)),
        ("interrupting", Report(state=RunState.PREEMPTING, attempt=1, mode=Mode.INTERRUPTIBLE)),
        ("paused", Report(state=RunState.QUEUED, attempt=1, mode=Mode.INTERRUPTIBLE)),
        ("paused", Report(state=RunState.PAUSED, attempt=1)),
        ("cancelling", Report(state=RunState.STOPPING, attempt=1)),
    ],
)
def test_isc_words(word: str, report: Report) -> None:
    """I1, and the states of the ISC."""
    assert display("isc").status(report) == word


@pytest.mark.parametrize(
    ("word", "outcome", "cause"),
    [
        ("completed", "completed", None),
        ("cancelled", "stopped", "user_request"),
        ("failed", "failed", "exit_code"),
        ("strong_failed", "failed", "node_lost"),
        ("strong_failed", "failed", "platform_fault"),
    ],
)
def test_isc_words_of_what_has_ended(word: str, outcome: str, cause: str | None) -> None:
    ended = report_of(a_summary(summary(state="ended", outcome=outcome, cause_code=cause)))
    assert display("isc").status(ended) == word
