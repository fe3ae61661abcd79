"""`tarmac ls` while a run ends, which is one line, and of many runs, which are read page by page."""

from __future__ import annotations

from itertools import count, islice
from typing import Any

from msgspec.structs import asdict, replace

from answers import a_summary
from tarmac import api
from tarmac.cli.commands.ls import recent
from tarmac.cli.selecting import pages
from tarmac.cli.views.escapes import json_pieces, json_text
from tarmac.cli.views.runview import PIECE, ListedRun, run_pieces
from tarmac.cli.views.terminal import Terminal
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
    runs, hidden = recent(Ending(), {}, expand=True, at_once=100)  # type: ignore[arg-type]
    assert [(run.id, run.state) for run in runs] == [("r1", RunState.ENDED)]
    assert not hidden


class Endless:
    """A client of a server with runs without end, alternately single ones and those of an array."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def runs(self, *, limit: int, before: str | None, **query: Any) -> api.RunPage:
        self.requests.append(query)
        start = int(before or 0) + 1
        found = [{"id": f"{n}", "array_id": "a7" if n % 2 else None} for n in range(start, start + limit)]
        return api.RunPage(runs=list(map(a_summary, found)), next=f"{start + limit - 1}")


def test_a_page_is_requested_when_it_is_needed() -> None:
    """N5: and no page goes on with the arrays that the page before has."""
    client = Endless()
    found = pages(client, 10, {"mine": True}, by_array=True)  # type: ignore[arg-type]
    assert [run.id for run in islice(found, 10)] == [str(number) for number in range(1, 11)]
    assert client.requests == [{"mine": True}]
    next(found)
    assert client.requests[1:] == [{"mine": True, "without": ["a7"]}]


def test_a_long_list_is_printed_as_it_is_read() -> None:
    """N5: in a table and as JSON; the columns stay where they are."""
    line = ListedRun(**asdict(a_summary({"id": "r1", "name": "x"})))
    read = count(10_000)
    lines = (replace(line, id=f"r{next(read)}") for _ in iter(int, 1))
    table = run_pieces(lines, now=0.0, terminal=Terminal())
    first = next(table).splitlines()
    assert (len(first), next(read)) == (PIECE + 1, 10_000 + 2 * PIECE)
    assert next(table).splitlines()[0].index("x") == first[1].index("x")
    document = json_pieces({"runs": ({"id": next(read)} for _ in iter(int, 1))})
    begun = next(read)
    assert "".join(islice(document, 3)).split() == ["{", '"runs":', "[", "{", '"id":', f"{begun + 1}", "}"]
    assert next(read) == begun + 2


def test_json_in_pieces_is_the_json_of_the_whole() -> None:
    whole = {"a": [1, {"b": "line\nend"}], "none": [], "of": [{"runs": []}, {"runs": [{"x": {}}]}]}
    lazy = {**whole, "none": iter([]), "of": ({"runs": iter(each["runs"])} for each in whole["of"])}
    assert "".join(json_pieces(lazy)) == json_text(whole, indent=2)
