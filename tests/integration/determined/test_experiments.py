"""Experiments, the queue and the cluster through the gateway, with requests as `det` sends them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined_calls import DeterminedCalls
from served import TOKEN, Served, served
from tarmac.control.reconcilers.search import search_pass
from tarmac.engines.sim import Behaviour

GRID = """\
name: grid
entrypoint: python3 train.py
hyperparameters:
  lr: {type: categorical, vals: [0.1, 0.2]}
searcher: {name: grid, metric: loss, max_length: {batches: 50}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""
SINGLE = "name: one\nentrypoint: python3 train.py\nsearcher: {name: single, metric: loss}\n"
WIDE = "name: wide\nentrypoint: x\nsearcher: {name: single, metric: loss}\nresources: {slots_per_trial: 8}\n"


def model_definition() -> list[dict[str, Any]]:
    """The files of a context directory, as the client packs them."""
    content = base64.b64encode(b"print('hello')\n").decode()
    common = {"mtime": "1700000000", "uid": 0, "gid": 0}
    return [
        {"path": "data", "type": 53, "content": "", "mode": 0o755, **common},
        {"path": "data/x.txt", "type": 48, "content": content, "mode": 0o644, **common},
        {"path": "train.py", "type": 48, "content": content, "mode": 0o755, **common},
    ]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", behaviour=lambda _: Behaviour(duration_s=10.0), keeps_code=True) as made:
        yield made


@pytest.fixture
def calls(here: Served) -> DeterminedCalls:
    return logged_in(here)


def logged_in(here: Served) -> DeterminedCalls:
    """The calls of the default user."""
    login = {"username": "determined", "password": "", "isHashed": True}
    made = DeterminedCalls(here.gateway_port)
    made.token = made.post("/api/v1/auth/login", login)[1]["token"]
    return made


def create(calls: DeterminedCalls, config: str = GRID, **more: Any) -> Any:
    body = {"config": config, "modelDefinition": model_definition(), "activate": True, "validateOnly": False}
    status, found = calls.post("/api/v1/experiments", body | {"unknown": 1} | more)
    assert status == 200, found
    return found["experiment"]


def turn(here: Served, seconds: float = 1.0) -> None:
    here.advance(seconds)
    search_pass(here.plane.control, here.plane.searches, None)


def states(calls: DeterminedCalls, number: int) -> tuple[str, list[str]]:
    experiment = calls.get(f"/api/v1/experiments/{number}")[1]["experiment"]
    trials = calls.get(f"/api/v1/experiments/{number}/trials")[1]["trials"]
    return experiment["state"], [each["state"] for each in trials]


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


def test_jobs_are_listed_and_moved(here: Served, calls: DeterminedCalls) -> None:
    """D13, D14, D15."""
    create(calls, WIDE)
    turn(here)
    turn(here)
    create(calls, WIDE.replace("wide", "second"))
    create(calls, GRID)
    turn(here)

    def jobs() -> list[tuple[Any, ...]]:
        found = [each["full"] for each in calls.get("/api/v1/job-queues-v2", limit=100)[1]["jobs"]]
        assert [each["summary"]["jobsAhead"] for each in found] == list(range(len(found)))
        return [
            (each["name"], each["entityId"], each["priority"], each["allocatedSlots"], each["requestedSlots"])
            for each in found
        ]

    assert jobs() == [("wide", "1", 42, 8, 8), ("second", "2", 42, 0, 8), ("grid", "3", 42, 0, 2)]
    ids = {
        each["full"]["name"]: each["full"]["jobId"] for each in calls.get("/api/v1/job-queues-v2")[1]["jobs"]
    }

    def update(**change: Any) -> tuple[int, Any]:
        return calls.post("/api/v1/job-queues", {"updates": [change]})

    assert update(jobId=ids["grid"], aheadOf=ids["second"])[0] == 200
    assert [each[0] for each in jobs()] == ["wide", "grid", "second"]
    assert update(jobId=ids["grid"], behindOf=ids["second"])[0] == 200
    assert [each[0] for each in jobs()] == ["wide", "second", "grid"]
    assert update(jobId=ids["grid"], priority=7)[0] == 200
    assert jobs()[0][:3] == ("grid", "3", 7)
    assert calls.ask("PATCH", "/api/v1/experiments/3", {"resources": {"priority": 9}})[0] == 200
    assert jobs()[0][:3] == ("grid", "3", 9)
    for change, part in (
        ({"priority": 0}, "between 1 and 99"),
        ({"weight": 0.5}, ""),
        ({"resourcePool": "nowhere"}, "nowhere"),
        ({}, "one of priority"),
    ):
        status, found = update(jobId=ids["grid"], **change)
        assert status >= 400, found
        assert part in found["message"]
    assert update(jobId="none", priority=3)[0] == 404
    described = calls.get("/api/v1/experiments/3")[1]
    assert described["jobSummary"] == {"state": "STATE_QUEUED", "jobsAhead": 0}


def test_what_an_experiment_is_called_and_may_hold_is_changed(here: Served, calls: DeterminedCalls) -> None:
    create(calls)
    turn(here)
    turn(here)

    def change(**fields: Any) -> Any:
        status, found = calls.ask("PATCH", "/api/v1/experiments/1", {"id": 1, "unknown": 2, **fields})
        return found["experiment"] if status == 200 else (status, found["message"])

    assert change(name="My other one!")["name"] == "My other one!"
    assert change(description="why")["description"] == "why"
    assert change(labels=["b", "a"])["labels"] == ["b", "a"]
    assert change(notes="of it")["notes"] == "of it"
    assert change(resources={"maxSlots": 1})["config"]["resources"]["max_slots"] == 1
    assert change(resources={"weight": 3})["config"]["resources"]["weight"] == 3.0
    storage = change(checkpointStorage={"saveTrialBest": 4})["config"]["checkpoint_storage"]
    assert (storage["save_trial_best"], storage["save_trial_latest"]) == (4, 1)
    [experiment] = calls.get("/api/v1/experiments")[1]["experiments"]
    assert (experiment["name"], experiment["labels"]) == ("My other one!", ["b", "a"])
    assert "save_trial_best: 1" not in experiment["originalConfig"]
    assert calls.get("/api/v1/experiment/labels")[1] == {"labels": ["a", "b"]}
    for fields, part in (
        ({"name": "!"}, "letter"),
        ({"labels": "a"}, "list"),
        ({"resources": {"priority": 100}}, "between 1 and 99"),
        ({"resources": {"maxSlots": -1}}, "from 0 on"),
        ({"resources": [1]}, "mapping"),
    ):
        status, message = change(**fields)
        assert (status, part in message) == (400, True), message


def test_a_limit_of_slots_that_is_changed_counts_for_waiting_trials(
    here: Served, calls: DeterminedCalls
) -> None:
    create(calls, activate=False)
    turn(here)
    assert calls.ask("PATCH", "/api/v1/experiments/1", {"resources": {"maxSlots": 1}})[0] == 200
    calls.post("/api/v1/experiments/1/activate")
    turn(here)
    turn(here)
    assert sorted(states(calls, 1)[1]) == ["STATE_QUEUED", "STATE_RUNNING"]
    assert calls.ask("PATCH", "/api/v1/experiments/1", {"resources": {"maxSlots": None}})[0] == 200
    turn(here)
    turn(here)
    assert states(calls, 1)[1] == ["STATE_RUNNING"] * 2


def test_a_slot_that_takes_no_work_is_left_free(here: Served, calls: DeterminedCalls) -> None:
    for agent in calls.get("/api/v1/agents")[1]["agents"]:
        for slot in list(agent["slots"])[1:]:
            assert calls.post(f"/api/v1/agents/{agent['id']}/slots/{slot}/disable")[0] == 200
    create(calls, WIDE)
    create(calls)
    turn(here)
    turn(here)
    assert states(calls, 1)[0] == "STATE_QUEUED", "it waits, and is not refused: slots come back"
    assert states(calls, 2)[1] == ["STATE_RUNNING"] * 2
    [task, other] = calls.get("/api/v1/tasks")[1]["allocationIdToSummary"].values()
    assert task["slotsNeeded"] == other["slotsNeeded"] == 1


def test_the_master_says_how_it_schedules_and_what_it_logged(here: Served, calls: DeterminedCalls) -> None:
    config = calls.get("/api/v1/master/config")[1]["config"]
    assert config["resource_manager"]["scheduler"]["type"] == "priority"
    assert calls.get("/config")[1] == config
    log = here.home.log
    log.write_text("2026-11-23 17:26:20,608 INFO a: one\n2026-11-23 17:26:21,000 ERROR b: two\n  more\n")
    status, data = calls.raw("GET", "/api/v1/master/logs?offset=-1")
    [line] = data.splitlines()
    entry = json.loads(line)["result"]["logEntry"]
    assert (status, entry["id"], entry["level"], entry["message"]) == (
        200,
        2,
        "LOG_LEVEL_ERROR",
        "b: two\n  more",
    )


def test_the_cluster_is_told_as_agents_slots_tasks_and_pools(here: Served, calls: DeterminedCalls) -> None:
    create(calls, WIDE)
    turn(here)
    turn(here)
    agents = calls.get("/api/v1/agents")[1]["agents"]
    held = [
        slot["container"]["id"] for each in agents for slot in each["slots"].values() if slot["container"]
    ]
    assert (len(agents), len(held)) == (2, 8)
    [task] = calls.get("/api/v1/tasks")[1]["allocationIdToSummary"].values()
    assert {each["containerId"] for each in task["resources"]} == set(held)
    [old] = calls.get("/tasks")[1].values()
    assert (old["task_id"], old["slots_needed"]) == (task["taskId"], 8)
    [pool] = calls.get("/api/v1/resource-pools")[1]["resourcePools"]
    assert (pool["slotsAvailable"], pool["slotsUsed"], pool["defaultComputePool"]) == (8, 8, True)
    assert pool["schedulerType"] == "SCHEDULER_TYPE_PRIORITY"
    name = agents[0]["id"]
    assert calls.post(f"/api/v1/agents/{name}/disable", {"drain": True})[0] == 200
    assert calls.get(f"/api/v1/agents/{name}")[1]["agent"]["enabled"] is False
    assert calls.post(f"/api/v1/agents/{name}/enable")[0] == 200
    assert calls.get(f"/api/v1/agents/{name}")[1]["agent"]["enabled"] is True
    slot = f"/api/v1/agents/{name}/slots/0"
    assert calls.post(f"{slot}/disable", {"drain": True})[1]["slot"]["draining"] is True
    assert calls.get(slot)[1]["slot"]["enabled"] is False
    assert calls.get(f"/api/v1/agents/{name}")[1]["agent"]["enabled"] is True
    assert calls.post(f"{slot}/enable")[1]["slot"]["enabled"] is True
    assert calls.post(f"/api/v1/agents/{name}/slots/99/disable")[0] == 404
    usage = calls.raw(
        "GET",
        "/resources/allocation/raw?timestamp_after=1970-01-01T00:00:00Z&timestamp_before=2100-01-01T00:00:00Z",
        headers={},
    )
    assert usage[0] == 200
    assert b"determined" in usage[1]


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
    [found] = lines("searchText=second")
    assert found["message"].endswith("[rank=3] || ERROR: second\n")
    task = calls.get("/api/v1/trials/1")[1]["trial"]["taskId"]
    status, data = calls.raw("GET", f"/api/v1/tasks/{task}/logs")
    assert (status, len(data.splitlines())) == (200, len(written))


def test_a_followed_log_ends_with_its_trial(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    for _ in range(4):
        turn(here, 10.0)
    status, _ = calls.raw("GET", "/api/v1/trials/1/logs?follow=true")
    assert status == 200


def test_a_search_is_previewed_in_both_forms(calls: DeterminedCalls) -> None:
    config = {
        "name": "p",
        "entrypoint": "x",
        "hyperparameters": {"lr": {"type": "categorical", "vals": [1, 2]}},
    }
    config["searcher"] = {"name": "grid", "metric": "loss", "max_length": {"batches": 50}}
    found = calls.post("/api/v1/preview-hp-search", {"config": config, "seed": 1})[1]
    assert found["summary"]["trials"] == [
        {"count": 2, "unit": {"name": "batches", "value": 50, "maxLength": False}}
    ]
    assert found["simulation"]["trials"][0]["occurrences"] == 2
    assert calls.post("/searcher/preview", config)[1] == {"results": {"50": 2}}


def test_a_member_of_the_house_without_a_token_sees_nothing(here: Served) -> None:
    assert DeterminedCalls(here.gateway_port).get("/api/v1/experiments")[0] == 401
    assert DeterminedCalls(here.gateway_port, token=TOKEN).get("/api/v1/experiments")[0] == 200
