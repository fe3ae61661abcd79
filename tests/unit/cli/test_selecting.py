"""Which runs a command concerns, by its options and the pages of the list."""

from __future__ import annotations

from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from answers import a_summary
from tarmac import api
from tarmac.cli.selecting import Selection, confirm, matching_runs, selection_of
from tarmac.client import Client
from tarmac.model.codec import replace


class Pages:
    """A client with a list of runs, newest first, of two on a page."""

    def __init__(self, *names: str) -> None:
        self.runs_there = [
            a_summary({"id": f"r{n}", "name": name, "state": "running"}) for n, name in enumerate(names)
        ]
        self.queries: list[dict[str, Any]] = []

    def runs(self, *, before: str | None, **query: Any) -> api.RunPage:
        self.queries.append(query)
        start = int(before or 0)
        following = str(start + 2) if start + 2 < len(self.runs_there) else None
        return api.RunPage(runs=self.runs_there[start : start + 2], next=following)


def options(**changes: Any) -> dict[str, Any]:
    return {"runs": (), "name_glob": None, "labels": (), "everything": False, **changes}


def matching(pages: Pages, **conditions: Any) -> list[str]:
    found = matching_runs(cast(Client, pages), Selection(**conditions), ["running", "queued"], "stop")
    return [run.name for run in found]


def test_a_pattern_selects_from_all_pages_oldest_first() -> None:
    pages = Pages("lr-3", "other", "lr-2", "LR-0", "lr-1")
    assert matching(pages, name_glob="lr-?") == ["lr-1", "lr-2", "lr-3"]
    assert matching(pages, everything=True) == ["lr-1", "LR-0", "lr-2", "other", "lr-3"]


def test_only_the_users_own_runs_in_fitting_states_are_asked_for() -> None:
    pages = Pages("a")
    matching(pages, labels=(("team", "vision"),))
    assert pages.queries == [
        {"limit": 1000, "states": ["queued", "running"], "labels": {"team": "vision"}, "mine": True}
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "which runs?"),
        ({"runs": ("r1",), "everything": True}, "give either runs (r1) or"),
        ({"runs": ("r1",), "name_glob": ""}, "give either runs (r1) or"),
        ({"everything": True, "labels": (("a", "b"),)}, "--all already means every run"),
    ],
)
def test_runs_are_selected_in_exactly_one_way(given: dict[str, Any], message: str) -> None:
    with pytest.raises(click.UsageError) as refusal:
        selection_of(options(**given))
    assert message in str(refusal.value)


def test_a_question_without_somebody_to_answer_is_an_error() -> None:
    @click.command()
    def command() -> None:
        one, other = Pages("a", "b").runs_there
        confirm("stop", [one, replace(other, array_index=7)])

    result = CliRunner().invoke(command)
    assert result.exit_code == 2
    assert "stop 2 runs: a (r0, running), b[7] (r1, running). Add -y" in result.output
