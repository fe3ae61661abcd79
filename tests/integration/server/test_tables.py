"""Tables of runs and their changes over HTTP: what a page reads, and only what its user may see."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from served import HELLO, TOKEN, Served
from tarmac.model.people.account import AccountSettings, Visibility


def ask(plane: Served, path: str, token: str = TOKEN) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
    plane.closing.callback(connection.close)
    connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


class Stream:
    """A stream of changes as a browser reads it."""

    def __init__(self, plane: Served, token: str = TOKEN, last: str | None = None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
        plane.closing.callback(connection.close)
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        connection.request(
            "GET",
            "/api/v1/tables/runs/changes?field=name&field=state",
            headers=headers | ({"Last-Event-ID": last} if last else {}),
        )
        self._answer = connection.getresponse()
        assert self._answer.status == 200

    def message(self) -> dict[str, str]:
        """The next message by the names of its lines."""
        found: dict[str, str] = {}
        while line := self._answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            found[name] = value
        return found

    def runs(self) -> Any:
        """The content of the next message with runs."""
        while (message := self.message()).get("event") != "runs":
            assert message, "the stream ended"
        return json.loads(message["data"])


def test_a_table_has_the_chosen_fields_of_a_window(plane: Served) -> None:
    """I1."""
    for name in ("a", "b", "c"):
        plane.client().submit(f"name: {name}\ncommand: echo\n")
    status, found = ask(plane, "/tables/runs?field=name&field=state&sort=name&offset=1&limit=1")
    assert status == 200
    assert found == {"total": 3, "fields": ["name", "state"], "rows": [["b", "queued"]]}
    assert ask(plane, "/tables/runs/counts")[1]["status"] == {"queued": 3}
    assert len(ask(plane, "/tables/runs")[1]["fields"]) > 20


@pytest.mark.parametrize(
    ("query", "text"),
    [("sort=nmae", "'nmae' is no field of a run"), ("field=x", "'x' is no field"), ("limit=20000", "limit")],
)
def test_what_no_table_has_is_refused(plane: Served, query: str, text: str) -> None:
    status, found = ask(plane, f"/tables/runs?{query}")
    assert status == 400 or status == 422
    assert text in found["error"]["message"]


def test_a_stream_tells_each_change_and_resumes_after_the_last(plane: Served) -> None:
    stream = Stream(plane)
    opened = stream.message()
    assert opened["event"] == "open"
    run = plane.client().submit(HELLO)
    first = stream.runs()
    assert (first["fields"], first["rows"], first["more"]) == (
        ["name", "state"],
        [["hello", "queued"]],
        False,
    )
    plane.client().stop(run.id)
    resumed = Stream(plane, last=str(first["until"]))
    assert resumed.runs()["rows"] == [["hello", "ended"]]
    assert Stream(plane, last=opened["id"]).runs()["rows"] == [["hello", "ended"]], "one line for each run"


def test_a_stream_has_only_runs_that_its_user_sees(plane: Served) -> None:
    """I2: bob's organisation shows each user their own runs."""
    admin = plane.client()
    admin.set_user("ada")
    admin.set_user("bob", AccountSettings(organisation="closed"))
    admin.set_organisation("closed", Visibility.OWN)
    token = admin.add_token("page", user="bob").text
    stream = Stream(plane, token)
    stream.message()
    admin.submit("name: hidden\ncommand: echo\n")
    plane.remote_client(token).submit("name: mine\ncommand: echo\n")
    assert stream.runs()["rows"] == [["mine", "queued"]]
    assert ask(plane, "/tables/runs?field=name", token)[1]["rows"] == [["mine"]]
    assert ask(plane, "/tables/runs/counts", token)[1]["user"] == {"bob": 1}
    plane.turn()
    nodes = ask(plane, "/nodes", token)[1]
    assert {run["name"] for node in nodes for run in node["runs"]} == {"mine"}


def test_a_burst_of_changes_says_to_read_the_table_again(plane: Served) -> None:
    opened = Stream(plane).message()
    plane.client().submit("name: many\narray: 0-299\ncommand: echo\n")
    found = Stream(plane, last=opened["id"]).runs()
    assert found["more"]
    assert found["until"] == plane.store.last_event_id()
