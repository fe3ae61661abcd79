"""Experiments through the gateway, with requests as `det` sends them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import GRID, SINGLE, WIDE, create, logged_in, states, turn
from served import TOKEN, Served, served
from sim_engine import Behaviour


def test_an_experiment_is_numbered_runs_and_completes(here: Served, calls: DeterminedCalls) -> None:
    """D9, D10, D11."""
    made = create(calls)
    assert (made["id"], made["name"], made["username"], made["numTrials"]) == (1, "grid", "determined", 2)
    assert (made["searcherType"], made["config"]["max_restarts"]) == ("grid", 0)
    assert states(calls, 1) == ("STATE_QUEUED", ["STATE_QUEUED"] * 2)
    turn(here)
    turn(here)
    assert states(calls, 1) == ("STATE_RUNNING", ["STATE_RUNNING"] * 2)
    for _ in range(3):
        turn(here, 10.0)
    assert states(calls, 1) == ("STATE_COMPLETED", ["STATE_COMPLETED"] * 2)
    trials = calls.get("/api/v1/experiments/1/trials")[1]["trials"]
    assert [(each["id"], each["hparams"], each["experimentId"]) for each in trials] == [
        (1, {"lr": 0.1}, 1),
        (2, {"lr": 0.2}, 1),
    ] or [each["hparams"] for each in trials] == [{"lr": 0.2}, {"lr": 0.1}]
    assert calls.get("/api/v1/trials/2")[1]["trial"]["taskId"].startswith("1.")
    assert create(calls, SINGLE)["id"] == 2


def test_what_was_sent_is_what_comes_back(calls: DeterminedCalls) -> None:
    create(calls)
    packed = calls.get("/api/v1/experiments/1/model_def")[1]["b64Tgz"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as tar:
        assert sorted(tar.getnames()) == ["data", "data/x.txt", "train.py"]
        content = tar.extractfile("train.py")
        assert content is not None
        assert content.read() == b"print('hello')\n"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x"])
def test_a_file_outside_the_context_is_refused(calls: DeterminedCalls, path: str) -> None:
    files = [{"path": path, "type": 48, "content": "", "mode": 0o644}]
    status, found = calls.post("/api/v1/experiments", {"config": GRID, "modelDefinition": files})
    assert status == 400, found
    assert calls.get("/api/v1/experiments")[1]["experiments"] == []


def test_pause_activate_cancel_archive_delete(here: Served, calls: DeterminedCalls) -> None:
    """D12."""
    create(calls)
    turn(here)
    turn(here)
    assert calls.post("/api/v1/experiments/1/pause") == (200, {})
    assert states(calls, 1)[0] == "STATE_PAUSED"
    for _ in range(3):
        turn(here)
    assert calls.get("/api/v1/job-queues-v2")[1]["jobs"] == []
    assert calls.post("/api/v1/experiments/1/activate") == (200, {})
    turn(here)
    turn(here)
    assert states(calls, 1)[0] == "STATE_RUNNING"
    status, refused = calls.post("/api/v1/experiments/1/archive")
    assert (status, "has not ended" in refused["message"]) == (409, True)
    assert calls.post("/api/v1/experiments/1/cancel") == (200, {})
    for _ in range(4):
        turn(here)
    assert states(calls, 1) == ("STATE_CANCELED", ["STATE_CANCELED"] * 2)
    assert calls.post("/api/v1/experiments/1/archive") == (200, {})
    assert calls.get("/api/v1/experiments", archived="false")[1]["experiments"] == []
    assert calls.post("/api/v1/experiments/1/unarchive") == (200, {})
    assert len(calls.get("/api/v1/experiments", archived="false")[1]["experiments"]) == 1
    assert calls.ask("DELETE", "/api/v1/experiments/1") == (200, {})
    assert calls.get("/api/v1/experiments/1")[0] == 404
    assert create(calls)["id"] == 2, "a number is never given twice"


def test_one_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    stubborn = Behaviour(duration_s=9_999.0, ignores_requests=True)
    with served(tmp_path / "home", behaviour=lambda _: stubborn, keeps_code=True) as here:
        calls = logged_in(here)
        create(calls, SINGLE)
        turn(here)
        turn(here)
        assert calls.post("/api/v1/experiments/1/cancel") == (200, {})
        turn(here, 60.0)
        assert states(calls, 1)[0] == "STATE_STOPPING_CANCELED"
        assert calls.post("/api/v1/experiments/1/kill") == (200, {})
        turn(here)
        turn(here)
        assert states(calls, 1) == ("STATE_CANCELED", ["STATE_CANCELED"])


def test_an_experiment_whose_only_trial_is_killed_is_canceled(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    turn(here)
    turn(here)
    assert calls.post("/api/v1/trials/1/kill") == (200, {})
    turn(here)
    turn(here)
    assert states(calls, 1) == ("STATE_CANCELED", ["STATE_CANCELED"])


@pytest.mark.parametrize("most", [0, 2])
def test_restarts_are_no_more_than_max_restarts(tmp_path: Path, most: int) -> None:
    """The last failure of a trial restarts nothing."""
    failing = Behaviour(duration_s=60.0, exit_code=3)
    with served(tmp_path / "home", behaviour=lambda _: failing, keeps_code=True) as here:
        calls = logged_in(here)
        create(calls, f"{SINGLE}max_restarts: {most}\n")
        for _ in range(20):
            turn(here, 100.0)
        assert states(calls, 1)[0] == "STATE_ERROR"
        listed = calls.get("/api/v1/experiments/1/trials")[1]["trials"][0]
        trial = calls.get("/api/v1/trials/1")[1]["trial"]
        assert listed["restarts"] == trial["restarts"] == most


def test_one_that_is_created_paused_waits(here: Served, calls: DeterminedCalls) -> None:
    create(calls, activate=False)
    turn(here)
    turn(here)
    assert states(calls, 1)[0] == "STATE_PAUSED"


def test_a_wrong_configuration_is_refused_with_all_that_is_wrong(calls: DeterminedCalls) -> None:
    body = {"config": "searcher: {name: singel}\n", "modelDefinition": []}
    status, found = calls.post("/api/v1/experiments", body)
    assert status == 400
    assert "config.yaml:1" in found["message"]
    assert calls.post("/api/v1/experiments", body | {"config": WIDE})[0] == 200
    too_wide = WIDE.replace("8", "80")
    assert calls.post("/api/v1/experiments", body | {"config": too_wide})[0] == 409


def test_a_request_to_validate_keeps_nothing(calls: DeterminedCalls) -> None:
    assert create(calls, validateOnly=True)["name"] == "grid"
    assert calls.get("/api/v1/experiments")[1]["experiments"] == []


def test_a_fork_has_the_code_of_its_parent(here: Served, calls: DeterminedCalls) -> None:
    create(calls)
    forked = create(calls, SINGLE, parentId=1, modelDefinition=[])
    assert (forked["id"], forked["forkedFrom"]) == (2, 1)
    first, second = (calls.get(f"/api/v1/experiments/{each}/model_def")[1] for each in (1, 2))
    assert len(first["b64Tgz"]) == len(second["b64Tgz"]) > 100


def test_lists_are_cut_into_pages(calls: DeterminedCalls) -> None:
    for _ in range(3):
        create(calls, SINGLE)
    found = calls.get("/api/v1/experiments", offset=1, limit=1, users=["determined"])[1]
    assert [each["id"] for each in found["experiments"]] == [2]
    assert found["pagination"] == {"offset": 1, "limit": 1, "startIndex": 1, "endIndex": 2, "total": 3}
    last = calls.get("/api/v1/experiments", offset=-1, limit=5)[1]["experiments"]
    assert [each["id"] for each in last] == [3]
    assert calls.get("/api/v1/experiments", users=["bo"])[1]["experiments"] == []
    assert calls.get("/api/v1/experiments", limit="x")[0] == 400


def test_lists_are_chosen_and_sorted_as_the_library_asks(calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    create(calls, GRID + "labels: [red]\n")
    create(calls, SINGLE.replace("one", "alone"))

    def ids(**query: Any) -> list[int]:
        return [each["id"] for each in calls.get("/api/v1/experiments", **query)[1]["experiments"]]

    assert ids(labels=["red", "blue"]) == [2]
    assert ids(sortBy="SORT_BY_NAME") == [3, 2, 1]
    assert ids(sortBy="SORT_BY_NAME", orderBy="ORDER_BY_DESC", limit=2) == [1, 2]
    assert ids(sortBy="SORT_BY_ID", orderBy="ORDER_BY_DESC") == [3, 2, 1]
    assert ids(projectId=1) == [1, 2, 3]


def test_there_is_one_workspace_with_the_projects_of_experiments(calls: DeterminedCalls) -> None:
    create(calls, SINGLE, projectId=1)
    body = {"config": SINGLE, "modelDefinition": [], "projectId": 7}
    status, found = calls.post("/api/v1/experiments", body)
    assert (status, found["message"]) == (
        400,
        "project not found: 7 (det project list Uncategorized has the numbers)",
    )
    assert calls.get("/api/v1/experiments", projectId=7)[0] == 400
    assert calls.post("/api/v1/experiments/1/move", {"destinationProjectId": 1}) == (200, {})
    assert calls.post("/api/v1/experiments/1/move", {"destinationProjectId": 2})[0] == 400
    assert calls.get("/api/v1/workspaces", nameCaseSensitive="Nowhere")[1]["workspaces"] == []
    [workspace] = calls.get("/api/v1/workspaces", name="Uncategorized")[1]["workspaces"]
    [project] = calls.get(f"/api/v1/workspaces/{workspace['id']}/projects")[1]["projects"]
    assert (project["numExperiments"], project["numActiveExperiments"]) == (1, 1)
    named = create(calls, SINGLE + "workspace: Uncategorized\nproject: Two Words\n")
    assert (named["projectName"], named["projectId"] > 1) == ("Two-Words", True)
    listed = calls.get("/api/v1/workspaces/1/projects")[1]["projects"]
    assert [(each["id"], each["name"]) for each in listed] == [
        (1, "Uncategorized"),
        (named["projectId"], "Two-Words"),
    ]
    inside = create(calls, SINGLE, projectId=named["projectId"])
    assert (inside["projectName"], inside["config"]["project"]) == ("Two-Words", "Two-Words")
    found = calls.get("/api/v1/experiments", projectId=named["projectId"])[1]["experiments"]
    assert [each["id"] for each in found] == [2, 3]
    one = calls.get("/api/v1/workspaces/1/projects", name="two-words")[1]["projects"]
    assert one == [calls.get(f"/api/v1/projects/{named['projectId']}")[1]["project"]]
    status, refused = calls.post("/api/v1/experiments/2/move", {"destinationProjectId": 1})
    assert (status, "stays in its project, Two-Words" in refused["message"]) == (409, True)
    status, refused = calls.post("/api/v1/workspaces", {"name": "lab"})
    assert (status, "one workspace, Uncategorized" in refused["message"]) == (400, True)
    status, refused = calls.post("/api/v1/workspaces/1/projects", {"name": "vision"})
    assert (status, "has no account" in refused["message"]) == (409, True)


def test_lists_are_sorted_and_chosen_by_fields(here: Served, calls: DeterminedCalls) -> None:
    """As `list_experiments` and `list_trials` of the client ask."""
    create(calls, GRID)
    create(calls, SINGLE)
    assert calls.ask("PUT", "/api/v1/experiments/1/labels/new%2Fer") == (200, {"labels": ["new/er"]})
    assert calls.ask("PUT", "/api/v1/experiments/1/labels/b") == (200, {"labels": ["new/er", "b"]})
    assert calls.ask("DELETE", "/api/v1/experiments/1/labels/new%2Fer") == (200, {"labels": ["b"]})

    def listed(**query: Any) -> list[int]:
        return [each["id"] for each in calls.get("/api/v1/experiments", **query)[1]["experiments"]]

    assert listed(sortBy="SORT_BY_NAME", orderBy="ORDER_BY_DESC") == [2, 1]
    assert listed(sortBy="SORT_BY_NUM_TRIALS") == [2, 1]
    assert (listed(labels=["b"]), listed(labels=["c"])) == ([1], [])
    assert (listed(**{"experimentIdFilter.incl": [2, 7]}), listed(states=["STATE_ACTIVE"])) == ([2], [1, 2])
    trials = calls.get("/api/v1/experiments/1/trials", sortBy="SORT_BY_DURATION", orderBy="ORDER_BY_DESC")[1]
    assert sorted(each["id"] for each in trials["trials"]) == [1, 2]


def test_logs_are_lines_with_rank_and_level(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    turn(here)
    turn(here)
    [run] = here.store.live_runs()
    [worker] = here.engine.workers(f"{run.id}.1")
    here.engine.write(f"{run.id}.1", worker.log, b"first\n[rank=3] ERROR: second\r\nth")

    def lines(query: str) -> list[Any]:
        status, data = calls.raw("GET", f"/api/v1/trials/1/logs?{query}")
        assert status == 200
        return [json.loads(line)["result"] for line in data.splitlines()]

    written = [(each["log"], each["rankId"], each["level"]) for each in lines("")]
    assert ("second", 3, "LOG_LEVEL_ERROR") in written
    assert written[-1][0] == "th"
    assert [each["log"] for each in lines("limit=1&orderBy=ORDER_BY_DESC")] == ["th"]
    assert [each["log"] for each in lines("levels=LOG_LEVEL_ERROR")] == ["second"]
    assert [each["log"] for each in lines("rankIds=3")] == ["second"]
    assert [each["log"] for each in lines("rankIds=-1")] == ["first", "th"], "-1 is without a rank"
    assert lines("rankIds=-2") == []
    assert calls.get("/api/v1/trials/1/logs", rankIds="x")[0] == 400
    [found] = lines("searchText=second")
    assert found["message"].endswith("[rank=3] || ERROR: second\n")
    task = calls.get("/api/v1/trials/1")[1]["trial"]["taskId"]
    status, data = calls.raw("GET", f"/api/v1/tasks/{task}/logs")
    assert (status, len(data.splitlines())) == (200, len(written))
    assert calls.get(f"/api/v1/tasks/{task}/logs/fields") == calls.get("/api/v1/trials/1/logs/fields")


def test_lines_of_an_attempt_come_before_those_of_the_next(here: Served, calls: DeterminedCalls) -> None:
    """Also a last line without a newline, and lines that were written at different times."""
    create(calls, SINGLE)
    turn(here)
    turn(here)
    [run] = here.store.live_runs()
    for number, text in ((1, b"a\nlast of 1"), (2, b"first of 2\nb\n")):
        [worker] = here.engine.workers(f"{run.id}.{number}")
        here.engine.write(f"{run.id}.{number}", worker.log, text)
        here.engine.write(
            f"{run.id}.{number}", worker.log.removesuffix("log") + "idx", b"1.0 2\n2.0 %d\n" % len(text)
        )
        calls.post("/api/v1/experiments/1/pause")
        for _ in range(3):
            turn(here)
        calls.post("/api/v1/experiments/1/activate")
        for _ in range(3):
            turn(here)
    status, data = calls.raw("GET", "/api/v1/trials/1/logs")
    lines = [json.loads(line)["result"]["log"] for line in data.splitlines()]
    assert (status, lines) == (200, ["a", "last of 1", "first of 2", "b"])


@pytest.mark.parametrize("task", ["6f4b2f8a-43f0-4d3a-9bbd-3d1f2f0a7c11", "7.x", "1.x", "\u00b2.x", "1" * 30])
def test_logs_of_a_task_that_there_is_not(calls: DeterminedCalls, task: str) -> None:
    """As `det notebook logs UUID` and `det task logs UUID` ask."""
    create(calls)
    status, found = calls.get(f"/api/v1/tasks/{quote(task)}/logs")
    assert (status, found["message"]) == (404, f"task not found: {task}")


def test_a_followed_log_ends_with_its_trial(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    for _ in range(4):
        turn(here, 10.0)
    status, _ = calls.raw("GET", "/api/v1/trials/1/logs?follow=true")
    assert status == 200


def test_a_member_of_the_house_without_a_token_sees_nothing(here: Served) -> None:
    assert DeterminedCalls(here.gateway_port).get("/api/v1/experiments")[0] == 401
    assert DeterminedCalls(here.gateway_port, token=TOKEN).get("/api/v1/experiments")[0] == 200
