"""`tarmac ls` while a run ends: it is one line."""

from __future__ import annotations

from typing import Any

from answers import a_summary
from tarmac import api
from tarmac.cli.commands.ls import recent
from tarmac.model.lifecycle import RunState


class Ending:
    """A client whose one run ends after each question."""

    def __init__(self) -> None:
        self.state = RunState.RUNNING

    def runs(self, *, states: list[RunState], **_filters: Any) -> api.RunPage:
        found = [a_summary({"id": "r1", "state": self.state})] if self.state in states else []
        self.state = RunState.ENDED
        return api.RunPage(runs=found, next=None)


def test_a_run_that_ends_between_two_questions_is_listed_once() -> None:
    runs, hidden = recent(Ending(), {}, expand=True)  # type: ignore[arg-type]
    assert [(run.id, run.state) for run in runs] == [("r1", RunState.ENDED)]
    assert not hidden
