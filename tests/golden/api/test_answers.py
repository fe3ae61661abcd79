"""The answers of every route, as bytes on the wire would show them: one story, told in requests.

The server serves fakes: clock, ids and nodes are the same each time. A route that the story leaves out fails
the test. Differences between two versions of the code are differences in these files.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden import assert_golden
from served import HELLO, TOKEN, Served, served
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.sync import Place, Syncer

HERE = Path(__file__).parent
BASE = "/api/v1"
NOT_TOLD = {
    "GET /runs/{run}/code-changes",
    "POST /runs/{run}/sessions",
    "POST /sessions/{session}",
    "POST /code/packs",
    "POST /code/trees",
    "GET /artifact-pieces/{piece}",
}
"""Routes whose answers are streams of bytes; tests of their own read those."""

SEARCH = """name: tune
slots: 1
command: python train.py --lr ${parameters.lr}
parameters: {lr: {log: [1e-5, 1e-1]}}
search: {method: random, metric: loss, max_trials: 2, seed: 1}
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home") as made:
        yield made


class Story:
    """Sends requests and writes down what came back."""

    def __init__(self, plane: Served) -> None:
        self._plane = plane
        self.lines: list[str] = []
        self.routes: set[str] = set()
        self.known = routes(plane)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request, which the story has from then on."""
        status, answer = send(self._plane, method, path, body)
        return self._tell(method, path, body, status, answer)

    def ask_for_change(self, method: str, path: str, cluster: str, body: object = None) -> None:
        """Ask for a change of a cluster; its record is told as it is once the work is done."""
        status, answer = send(self._plane, method, path, body)
        assert json.loads(answer).keys() == {"cluster", "kind", "state", "began_at", "lines", "next", "error"}
        while json.loads(answer)["state"] == "working":
            _, answer = send(self._plane, "GET", f"/clusters/{cluster}/change")
        self._tell(method, path, body, status, answer)

    def _tell(self, method: str, path: str, body: object, status: int, answer: str) -> Any:
        self.routes.update(self._route(method, path))
        sent = f" {self._masked(json.dumps(body))}" if body is not None else ""
        self.lines += ["", f"{method} {self._masked(path)}{sent}", f"{status} {self._shown(answer)}"]
        try:
            return json.loads(answer)
        except ValueError:
            return answer

    def _route(self, method: str, path: str) -> Iterator[str]:
        bare = path.partition("?")[0]
        for each in self.known:
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each))
            if re.fullmatch(pattern, f"{method} {bare}"):
                yield each

    def _masked(self, text: str) -> str:
        text = text.replace(str(self._plane.home.root), "HOME").replace(f":{self._plane.tcp_port}", ":PORT")
        text = re.sub(r"\b1[78]\d{8}(\d{9}|\.\d+)", "0", text)  # times of the real clock
        text = re.sub(r"tarmac_[\w-]{43}", "TOKEN", text)
        text = re.sub(r'("id": ?"|"token": ?"|/tokens/)[0-9a-f]{12}', r"\1ID", text)
        return re.sub(r'"(pid|version)": ?[^,}]+', r'"\1": "?"', text)

    def _shown(self, answer: str) -> str:
        text = self._masked(answer)
        try:
            return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
        except ValueError:
            return text


def send(plane: Served, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=30)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    outside = path in ("/healthz", "/metrics")
    sent = None if body is None else json.dumps(body).encode()
    connection.request(method, path if outside else BASE + path, body=sent, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def openapi(plane: Served) -> dict[str, Any]:
    """The description that the server serves."""
    found: dict[str, Any] = json.loads(send(plane, "GET", "/openapi.json")[1])
    return found


def routes(plane: Served) -> list[str]:
    """`METHOD /path` of every route."""
    paths = openapi(plane)["paths"]
    return [f"{way.upper()} {path.removeprefix(BASE)}" for path, ways in paths.items() for way in ways]


def test_the_description_of_the_api(plane: Served) -> None:
    described = openapi(plane)
    operations = {
        f"{way.upper()} {path}": operation
        for path, ways in described["paths"].items()
        for way, operation in ways.items()
    }
    parts = (*sorted(operations.items()), *sorted(described["components"]["schemas"].items()))
    text = "".join(f"{name}: {json.dumps(without_prose(part), sort_keys=True)}\n" for name, part in parts)
    assert_golden(HERE / "openapi.txt", text)


def without_prose(part: Any) -> Any:
    """A part of the description without the text for people, and without the names of functions."""
    if isinstance(part, list):
        return [without_prose(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: without_prose(value)
        for name, value in part.items()
        if name not in ("description", "title", "operationId") or not isinstance(value, str)
    }


def test_the_answers_of_every_route(plane: Served) -> None:
    story = Story(plane)
    submit_and_run(plane, story)
    look(story, "hello")
    queue_and_nodes(plane, story)
    searches(plane, story)
    keep_things(plane, story)
    people(plane, story)
    clusters(story)
    rented_machines(plane, story)
    refusals(story)
    leave(story)
    assert_golden(HERE / "answers.txt", "\n".join(story.lines).lstrip() + "\n")
    assert set(story.known) - story.routes - NOT_TOLD == set()


def submit_and_run(plane: Served, story: Story) -> None:
    story.ask("GET", "/version")
    story.ask("GET", "/healthz")
    story.ask("POST", "/check", {"source": "slotz: 1\n"})
    story.ask("POST", "/runs?dry_run=true", {"source": HELLO})
    story.ask("POST", "/code/needed", {"source": HELLO})
    story.ask("POST", "/code/missing", {"contents": ["0" * 64]})
    run = story.ask("POST", "/runs", {"source": HELLO, "filename": "hello.yaml", "idempotency_key": "k"})
    story.ask("POST", "/runs/batch", {"runs": [{"source": HELLO}, {"source": HELLO}]})
    story.ask("POST", "/experiments", {"source": HELLO, "sweep": {"lr": "1,2"}})
    story.ask("GET", f"/runs/{run['id']}/why")
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run['id']}.1", "logs/main.0.0.log", b"one\ntwo\n")
    story.ask("GET", f"/runs/{run['id']}/log-lines?text=ONE&times=true")
    story.ask("GET", f"/runs/{run['id']}/log-text?worker=0")


def look(story: Story, ref: str) -> None:
    for path in ("", "/attempts", "/why", "/annotations", "/notifications", "/files", "/reports?limit=5"):
        story.ask("GET", f"/runs/{ref}{path}")
    story.ask("GET", f"/runs/{ref}/file?path=main.0.0.log")
    story.ask("POST", f"/runs/{ref}/notes", {"text": "a note"})
    story.ask("PATCH", f"/runs/{ref}/labels", {"labels": {"team": "vision"}})
    story.ask("PATCH", "/runs/labels", {"labels": {"team": None}, "runs": ["nothing"]})
    story.ask("GET", f"/metrics?run={ref}")
    story.ask("GET", f"/numbers?run={ref}")
    story.ask("GET", "/runs?limit=3&label=team=vision")
    story.ask("GET", "/runs?limit=2")
    story.ask("GET", "/tables/runs?sort=name&limit=2&field=name&field=state")
    story.ask("GET", "/tables/runs?as=isc&limit=1&field=name")
    story.ask("GET", "/tables/runs/counts?field=status&text=hello")
    story.ask("PUT", "/views", {"name": "failed", "query": "status=failed"})
    story.ask("GET", "/views")
    story.ask("DELETE", "/views?name=failed")
    story.ask("GET", "/tables/runs/changes?after=0&field=name")
    story.ask("GET", "/page")
    story.ask("POST", "/page/address")


def queue_and_nodes(plane: Served, story: Story) -> None:
    story.ask("POST", "/runs", {"source": "name: wide\ncommand: sleep 9\nslots: 64\n"})
    story.ask("POST", "/runs", {"source": "name: later\ncommand: sleep 9\nslots: 8\n"})
    story.ask("GET", "/queue?limit=4")
    story.ask("POST", "/queue/changes", {"changes": [{"run": "hello", "priority": 5}]})
    story.ask("POST", "/nodes/drain", {"nodes": ["node1"], "reason": "new disk"})
    story.ask("GET", "/nodes")
    story.ask("POST", "/nodes/undrain", {"nodes": ["node1"]})
    later = {"begin_at": 2e9, "duration_s": 60, "users": ["bob"], "name": "course"}
    later["choice"] = {"nodes": ["node1"]}
    story.ask("POST", "/reservations", later)
    story.ask("POST", "/reservations", {**later, "name": "other"})
    story.ask("GET", "/reservations")
    story.ask("DELETE", "/reservations/course")
    story.ask("DELETE", "/reservations/course")
    story.ask("POST", "/runs/hello/pause")
    story.ask("POST", "/runs/hello/resume")
    story.ask("POST", "/runs/commands", {"command": "pause", "runs": ["later", "nothing"]})
    story.ask("POST", "/runs/hello/stop?now=true")
    plane.advance(60)
    story.ask("GET", "/runs/hello/events")
    story.ask("GET", "/runs/hello/logs")
    story.ask("POST", "/runs", {"source": "name: many\ncommand: echo\narray: 0-1\n"})
    plane.turn()
    story.ask("GET", "/runs/many/array")
    story.ask("GET", "/queue?arrays=true&limit=3")
    story.ask("GET", "/usage")
    story.ask("GET", "/usage/history?steps=2")
    story.ask("PUT", "/limits", {"user": "*", "pool": "nowhere", "slots": 4, "longest_s": 3600})
    story.ask("GET", "/limits")
    story.ask("POST", "/credits", {"account": "project:x", "credits": 10, "note": "May", "key": "k"})
    story.ask("GET", "/credits")
    story.ask("GET", "/credits/entries?account=project:x&limit=5")
    story.ask("GET", "/utilization")


def searches(plane: Served, story: Story) -> None:
    story.ask("POST", "/experiments/preview", {"source": SEARCH})
    experiment = story.ask("POST", "/experiments", {"source": SEARCH})
    ref = experiment.get("id", "tune")
    plane.turn()
    for path in ("", "/trials", "/best"):
        story.ask("GET", f"/experiments/{ref}{path}")
    for verb in ("pause", "activate", "stop", "archive", "continue"):
        story.ask("POST", f"/experiments/{ref}/{verb}")
        plane.turn()
    story.ask("GET", "/experiments")
    number = story.ask("GET", f"/numbers?run={ref}")
    story.ask("GET", f"/numbers/experiments/{number.get('experiment', 1)}")
    plane.advance(60)
    story.ask("DELETE", f"/experiments/{ref}")


def keep_things(plane: Served, story: Story) -> None:
    run = plane.client().run("hello")
    root = plane.home.root / "kept"
    root.mkdir()
    (root / "note").write_text("note")
    place = Place(run_id=run.id, attempt=1, kind="lossy", rank=0, root=str(root), seen_at=(str(root),))
    Syncer(open_blobs(str(plane.home.root / "artifacts")), place).sync()
    story.ask("GET", f"/artifacts?run={run.id}")
    story.ask("GET", f"/artifacts/{run.id}.lossy")
    story.ask("GET", f"/artifacts/{run.id}.lossy/file?path=note")
    story.ask("GET", f"/artifacts/{run.id}.lossy/file?path=none")
    story.ask("POST", "/datasets", {"id": "here", "source": str(plane.home.root)})
    story.ask("GET", "/datasets")
    story.ask("DELETE", "/datasets/here")
    story.ask("PUT", "/secrets/wandb", {"value": "a-value-1"})
    story.ask("GET", "/secrets")
    story.ask("POST", "/secrets/rotate")
    story.ask("DELETE", "/secrets/wandb?purge=true")
    story.ask("GET", "/images")
    story.ask("DELETE", "/images?image=none")
    story.ask("DELETE", f"/artifacts/{run.id}.lossy.1")


def people(plane: Served, story: Story) -> None:
    plane.client().set_user("ada")
    story.ask("PUT", "/users/bob", {"account": {"organisation": "lab"}, "password": "correct horse"})
    story.ask("PUT", "/users/nightly", {"account": {"service": True}})
    story.ask("GET", "/users")
    story.ask("PUT", "/organisations/lab", {"visibility": "control"})
    story.ask("GET", "/organisations")
    story.ask("PUT", "/projects/vision/members", {"user": "bob", "role": "admin"})
    story.ask("GET", "/projects/vision/members")
    story.ask("GET", "/projects")
    story.ask("POST", "/login", {"user": "bob", "password": "correct horse"})
    story.ask("POST", "/login", {"user": "bob", "password": "wrong"})
    story.ask("POST", "/login/sso", {"redirect_uri": "http://127.0.0.1:4711/callback"})
    story.ask("POST", "/login/sso/token", {"request": "of-another-server"})
    made = story.ask("POST", "/tokens", {"label": "ci", "user": "nightly", "scopes": ["submit"]})
    story.ask("GET", "/tokens?user=nightly")
    story.ask("DELETE", f"/tokens/{made['token']['id']}")
    story.ask("GET", "/account")
    story.ask("PUT", "/account/password", {"password": "another one"})
    story.ask("POST", "/logout")
    story.ask("POST", "/session", {"user": "bob", "password": "correct horse"})
    story.ask("DELETE", "/session")
    story.ask("DELETE", "/users/nightly")
    story.ask("PUT", "/account/notifications", {"to": "https://192.0.2.1/key", "on": ["failed"]})
    story.ask("PUT", "/account/notifications", {"to": "ada@lab.example"})
    story.ask("GET", "/account/notifications?user=nightly")
    story.ask("GET", "/audit?user=nobody")


def clusters(story: Story) -> None:
    story.ask("POST", "/clusters", {"source": "name: more\nengine: local\nnodes: 1\nslots: 2\n"})
    story.ask_for_change("PUT", "/clusters/gpus/machines", "gpus", {"source": "gpu1\n"})
    story.ask("PATCH", "/clusters/gpus/pools", {"pool": "default", "rules": {"preemption": True}})
    for path in ("", "/gpus", "/gpus/machines", "/gpus/change", "/gpus/check"):
        story.ask("GET", f"/clusters{path}")
    story.ask_for_change("POST", "/clusters/gpus/down", "gpus", {"force": True})
    story.ask("DELETE", "/clusters/gpus")


def rented_machines(plane: Served, story: Story) -> None:
    big = {"id": "lab-big", "provider": "lab", "region": "here", "machine": "big", "slots": 8}
    big |= {"slot_type": "h100", "rate": 12.5, "rated_on": "2026-11-01"}
    small = {**big, "id": "lab-small", "machine": "small", "slots": 4, "spot": True, "rate": 4, "credits": 6}
    story.ask("POST", "/providers", {"name": "lab", "kind": "fake"})
    story.ask("GET", "/providers")
    story.ask("GET", "/providers/lab/check")
    story.ask("PUT", "/shapes", {"shapes": [big, small]})
    story.ask("PUT", "/shapes", {"shapes": [{**big, "rat": 1}]})
    story.ask("POST", "/shapes/refresh")
    story.ask("POST", "/runs", {"source": "name: rents\ncommand: x\nslots: h100:8\nmode: burst\n"})
    story.ask("GET", "/burst/staged")
    story.ask("GET", "/runs/rents/offers")
    story.ask("POST", "/runs/rents/approve")
    plane.account.knobs.capacity["small"] = 0
    for _ in range(3):
        plane.turn()
    story.ask("GET", "/burst/rentals?run=rents")
    story.ask("GET", "/shapes")
    story.ask("GET", "/burst/strangers")
    story.ask("DELETE", "/shapes/lab-small")
    story.ask("DELETE", "/providers/lab")


def refusals(story: Story) -> None:
    story.ask("GET", "/runs/nothing")
    story.ask("POST", "/runs", {"source": "command: echo\nslotz: 1\npriorty: 2\n", "filename": "two.yaml"})
    story.ask("POST", "/runs", {"sauce": 1})
    story.ask("GET", "/runs?limit=0")
    story.ask("DELETE", "/runs")


def leave(story: Story) -> None:
    story.ask("DELETE", "/runs/hello")
    status, text = send(story._plane, "GET", "/metrics")
    story.lines += [
        "",
        f"GET /metrics: {status}",
        *sorted(set(re.findall(r"^# HELP .*", text, re.MULTILINE))),
    ]
    story.routes.add("GET /metrics")
    story.ask("PUT", "/announcement", {"text": "back soon", "until_at": 2_000_000.0})
    story.ask("POST", "/server/stop")
