"""Tables of runs and their changes over HTTP: what a page reads, and only what its user may see."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from served import HELLO, OWNER, TOKEN, Served
from tarmac.model.burst.shapes import Shape
from tarmac.model.people.account import AccountSettings, Visibility
from tarmac.systems.determined.identity import experiment_id


def ask(
    plane: Served, path: str, token: str = TOKEN, method: str = "GET", body: object = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
    plane.closing.callback(connection.close)
    headers, sent = {"Authorization": f"Bearer {token}"}, None if body is None else json.dumps(body)
    connection.request(method, f"/api/v1{path}", body=sent, headers=headers)
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

    def changes(self) -> Any:
        """The content of the next message with changes."""
        while (message := self.message()).get("event") != "runs":
            assert message, "the stream ended"
        return json.loads(message["data"])

    def runs(self) -> Any:
        """The content of the next message with runs."""
        while not ((found := self.changes())["rows"] or found["more"]):
            pass
        return found

    def until_told(self, *paths: str) -> None:
        """Read messages until the answers below these paths are named as changed."""
        left = set(paths)
        while left:
            left -= set(self.changes()["paths"])


def test_a_table_has_the_chosen_fields_of_a_window(plane: Served) -> None:
    """I1."""
    for name in ("a", "b", "c"):
        plane.client().submit(f"name: {name}\ncommand: echo\n")
    status, found = ask(plane, "/tables/runs?field=name&field=state&sort=name&offset=1&limit=1")
    assert status == 200
    assert found == {"total": 3, "fields": ["name", "state"], "columns": [], "rows": [["b", "queued"]]}
    assert len(ask(plane, "/tables/runs")[1]["fields"]) > 20


def test_the_values_of_one_field_are_counted_within_the_other_filters(plane: Served) -> None:
    """I1."""
    for name in ("a", "b", "c"):
        plane.client().submit(f"name: {name}\nproject: p-{name}\ncommand: echo\n")
    assert ask(plane, "/tables/runs/counts?field=status")[1] == {"queued": 3}
    assert ask(plane, "/tables/runs/counts?field=status&text=a")[1] == {"queued": 1}
    found = ask(plane, "/tables/runs/counts?field=project&project=p-a")[1]
    assert found == {"p-a": 1, "p-b": 1, "p-c": 1}
    status, found = ask(plane, "/tables/runs/counts?field=name")
    assert (status, "'name' is no field" in found["error"]["message"]) == (422, True)
    assert ask(plane, "/tables/runs/counts")[0] == 422


def test_a_table_has_the_columns_and_words_of_another_system(plane: Served) -> None:
    """I1: as on the ISC's Experiments page; D16: as Determined lists experiments."""
    run = plane.client().submit("name: a\ncommand: echo\nmode: interruptible\n").id
    found = ask(plane, "/tables/runs?as=isc&field=name")[1]
    titles = [each["title"] for each in found["columns"]]
    assert titles == ["ID", "Name", "Created", "GPUs", "Mode", "Cycle", "Status"]
    assert found["rows"] == [["a", run, "a", "1970-01-12 13:46:40", "0", "interruptible", "0", "enqueued"]]
    found = ask(plane, "/tables/runs?as=determined&field=id")[1]
    titles = [each["title"] for each in found["columns"]]
    assert dict(zip(titles, found["rows"][0][1:], strict=True)) == {
        **{"ID": str(experiment_id(run)), "Owner": OWNER, "Name": "a", "Parent ID": "", "State": "QUEUED"},
        **{"Progress": "N/A", "Started": "N/A", "Ended": "N/A", "Resource Pool": ""},
    }
    found = ask(plane, "/tables/runs?as=mcli&field=id")[1]
    assert [each["title"] for each in found["columns"]][:3] == ["NAME", "GPU_NUM", "CREATED_TIME"]
    assert found["rows"] == [[run, "a", "0", "1970-01-12 01:46 PM", "-", "-", "Queued"]]
    found = ask(plane, "/tables/runs?as=mantik&field=id")[1]
    assert found["rows"] == [[run, run, "a", "SCHEDULED", "", ""]]
    assert ask(plane, "/tables/runs/counts?field=status&as=isc&status=paused")[1] == {"enqueued": 1}
    assert ask(plane, "/tables/runs/counts?field=mode&as=isc&status=paused")[1] == {}


def test_a_burst_run_is_staged_until_it_is_approved_in_the_words_of_the_isc(plane: Served) -> None:
    """I13."""
    client, shape = plane.client(), Shape(id="s", provider="lab", region="", machine="m", slots=8, rate=1.0)
    client.add_provider("lab", "fake")
    client.set_shapes([shape])
    run = client.submit("name: train\ncommand: train\nslots: 8\nmode: burst\n")
    words, staged = "/tables/runs/counts?field=status&as=isc", "/tables/runs?as=isc&status=burst_staged"
    assert (ask(plane, words)[1], ask(plane, staged)[1]["total"]) == ({"burst_staged": 1}, 1)
    client.approve(run.id)
    assert (ask(plane, words)[1], ask(plane, staged)[1]["total"]) == ({"enqueued": 1}, 0)
    assert ask(plane, "/tables/runs?as=isc&status=enqueued&status=paused")[1]["total"] == 1
    assert ask(plane, "/tables/runs?as=isc&status=queued")[1]["total"] == 0
    assert ask(plane, "/page")[1]["systems"] == ["isc", "mcli", "mantik", "clusterfudge", "determined"]


def test_each_user_has_saved_views_of_their_own(plane: Served) -> None:
    admin = plane.client()
    admin.set_user("ada")
    admin.set_user("bob")
    ada, bob = (admin.add_token("page", user=name).text for name in ("ada", "bob"))
    named = "/views?name=Failed:+a/b+%26+c"
    failed = {"name": "Failed: a/b & c", "query": "status=failed&sort=name&column=name"}
    shorter = {**failed, "query": "status=failed"}
    assert ask(plane, "/views", ada, "PUT", failed) == (200, [failed])
    assert ask(plane, "/views", ada, "PUT", shorter) == (200, [shorter])
    assert ask(plane, "/views", bob) == (200, [])
    assert ask(plane, named, bob, "DELETE") == (200, [])
    assert ask(plane, "/views", ada) == (200, [shorter])
    assert ask(plane, named, ada, "DELETE") == (200, [])
    for bad in ({"name": ""}, {"name": "a" * 101}, {"query": "a" * 4_001}, {"name": "a\0"}):
        assert ask(plane, "/views", ada, "PUT", failed | bad)[0] == 422


def test_a_user_has_at_most_100_views(plane: Served) -> None:
    for number in range(100):
        status, found = ask(plane, "/views", TOKEN, "PUT", {"name": str(number), "query": ""})
    assert (status, len(found)) == (200, 100)
    assert ask(plane, "/views", TOKEN, "PUT", {"name": "99", "query": "text=a"})[0] == 200
    status, found = ask(plane, "/views", TOKEN, "PUT", {"name": "100", "query": ""})
    assert (status, found["error"]["message"]) == (409, "you have 100 views, the most")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("as=iscc", "did you mean isc?"),
        ("id=a&" * 201, "200"),
        ("sort=nmae", "'nmae' is no field of a run"),
        ("field=x", "'x' is no field"),
        ("limit=20000", "limit"),
    ],
)
def test_what_no_table_has_is_refused(plane: Served, query: str, text: str) -> None:
    status, found = ask(plane, f"/tables/runs?{query}")
    assert status == 400 or status == 422
    assert text in json.dumps(found)


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
    assert ask(plane, "/tables/runs/counts?field=user", token)[1] == {"bob": 1}
    plane.turn()
    nodes = ask(plane, "/nodes", token)[1]
    assert {run["name"] for node in nodes for run in node["runs"]} == {"mine"}


def test_a_stream_names_what_else_another_client_changes(plane: Served) -> None:
    """Pages that show nodes, limits, views and so on read them again at once."""
    admin, stream = plane.client(), Stream(plane)
    opened = stream.message()
    node = admin.nodes()[0]
    admin.drain(node.name, reason="a new fan")
    stream.until_told("/nodes", "/clusters", "/queue")
    admin.reserve(node.name, name="demo", begin_at=plane.clock.now(), duration_s=60.0)
    plane.turn()  # as the loops do, which a reservation wakes
    stream.until_told("/nodes", "/reservations")
    admin.set_limits(user="ada", slots=4)
    stream.until_told("/limits")
    assert ask(plane, "/views", method="PUT", body={"name": "mine", "query": ""})[0] == 200
    stream.until_told("/views")
    run = admin.submit(HELLO)
    admin.note(run.id, "look at this")
    stream.until_told("/runs")
    Stream(plane, last=opened["id"]).until_told("/nodes", "/limits", "/views", "/runs")


def test_a_stream_names_no_refused_change_and_no_question(plane: Served) -> None:
    admin, stream = plane.client(), Stream(plane)
    stream.message()
    assert ask(plane, "/limits", method="PUT", body={})[0] == 422
    admin.check(HELLO)
    admin.limits()
    run = admin.submit("name: last\ncommand: echo\n")
    found = [stream.changes()]
    while not found[-1]["rows"]:
        found.append(stream.changes())
    told = {path for each in found for path in each["paths"]}
    assert told <= {"/nodes", "/reservations", "/clusters", "/queue"}, "the nodes have just become known"
    assert found[-1]["rows"] == [["last", run.state]]


def test_a_burst_of_changes_says_to_read_the_table_again(plane: Served) -> None:
    opened = Stream(plane).message()
    plane.client().submit("name: many\narray: 0-299\ncommand: echo\n")
    found = Stream(plane, last=opened["id"]).runs()
    assert found["more"]
    assert found["until"] == plane.store.last_event_id()
