"""The queue, the cluster and what is changed of experiments, with requests as `det` sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import GRID, SINGLE, WIDE, create, logged_in, states, turn
from served import Served, served
from sim_engine import Behaviour
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Cluster, NodeGroup, Pool


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
    assert update(jobId="none", priority=3)[0] == 400
    described = calls.get("/api/v1/experiments/3")[1]
    assert described["jobSummary"] == {"state": "STATE_QUEUED", "jobsAhead": 0}


def test_the_example_of_the_document_gives_its_tables(tmp_path: Path) -> None:
    """D13, D14: list, update, list, update-batch, list; `det` sends one request for each change."""
    pools = [Pool(cluster=LOCAL_CLUSTER, name=DEFAULT_POOL, preemption=True, guaranteed_s=0.0)]
    behaviour = Behaviour(duration_s=9_999.0)
    with served(tmp_path / "home", behaviour=lambda _: behaviour, pools=pools, keeps_code=True) as here:
        calls = logged_in(here)
        for name in ("first_job", "second_job"):
            create(calls, WIDE.replace("wide", name))
            turn(here)

        def table() -> list[tuple[Any, ...]]:
            for _ in range(4):
                turn(here)
            found = [each["full"] for each in calls.get("/api/v1/job-queues-v2", limit=100)[1]["jobs"]]
            return [
                (
                    job["name"],
                    job["priority"],
                    (job["allocatedSlots"], job["requestedSlots"]),
                    job["summary"]["state"],
                )
                for job in found
            ]

        def update(name: str, **change: Any) -> None:
            body = {"updates": [{"jobId": ids[name], **change}]}
            assert calls.post("/api/v1/job-queues", body) == (200, {})

        held, waiting = ((8, 8), "STATE_SCHEDULED"), ((0, 8), "STATE_QUEUED")
        assert table() == [("first_job", 42, *held), ("second_job", 42, *waiting)]
        jobs = calls.get("/api/v1/job-queues-v2")[1]["jobs"]
        ids = {job["full"]["name"]: job["full"]["jobId"] for job in jobs}
        update("second_job", aheadOf=ids["first_job"])
        assert table() == [("second_job", 42, *held), ("first_job", 42, *waiting)]
        update("second_job", priority=1)
        update("first_job", priority=1)
        assert table() == [("second_job", 1, *held), ("first_job", 1, *waiting)]


def test_an_experiment_without_a_pool_is_one_of_the_default_pool(
    here: Served, calls: DeterminedCalls
) -> None:
    """D13: it waits there though another pool has free slots, and the lists and its configuration say so."""
    here.store.put_cluster(Cluster(name="site", groups=(NodeGroup(nodes=2, slots=8, pool="big"),)))
    for _ in range(2):
        create(calls, WIDE)
        turn(here)
    turn(here)
    assert [states(calls, number)[0] for number in (1, 2)] == ["STATE_RUNNING", "STATE_QUEUED"]
    listed = calls.get("/api/v1/job-queues-v2")[1]["jobs"]
    assert [job["full"]["entityId"] for job in listed] == ["1", "2"]
    experiments = calls.get("/api/v1/experiments")[1]["experiments"]
    assert {each["resourcePool"] for each in experiments} == {"default"}
    assert {each["config"]["resources"]["resource_pool"] for each in experiments} == {"default"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weight": 2.0}, "weight=2: pool plain orders by priority: a weight does not count there"),
        ({"resourcePool": "small"}, "pool=small: pool small could never hold job {one}: "),
        ({"resourcePool": "nowhere"}, "pool=nowhere: cluster site has no pool 'nowhere'"),
        ({"aheadOf": "two"}, "ahead-of=job {two}: job {one} is in pool plain and job {two} in pool small"),
    ],
    ids=["weight", "small", "nowhere", "ahead of"],
)
def test_an_error_about_a_job_names_the_job(
    here: Served, calls: DeterminedCalls, change: dict[str, Any], problem: str
) -> None:
    """D14, D15: the error names no run of a trial, and comes once though the job has two trials."""
    groups = (
        NodeGroup(nodes=1, slots=4, pool="plain"),
        NodeGroup(nodes=1, slots=1, pool="small", prefix="s"),
    )
    here.store.put_cluster(Cluster(name="site", groups=groups))
    create(calls, GRID.replace("slots_per_trial: 1", "slots_per_trial: 2, resource_pool: plain"))
    create(calls, SINGLE + "resources: {resource_pool: small}\n")
    ids = {
        name: calls.get(f"/api/v1/experiments/{number}")[1]["experiment"]["jobId"]
        for name, number in (("one", 1), ("two", 2))
    }
    sent = {name: ids.get(value, value) for name, value in change.items()}
    status, found = calls.post("/api/v1/job-queues", {"updates": [{"jobId": ids["one"], **sent}]})
    assert (status, found["message"].count("\n")) == (400, 0)
    assert found["message"].startswith(f"job {ids['one']}.{problem.format(**ids)}")
    assert not any(run.id in found["message"] for run in here.store.live_runs())


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
    assert config["resource_manager"]["scheduler"]["default_priority"] == 42
    assert config["feature_switches"] == []
    assert config["launch_error"] is True, "what can never start is refused, and ends where it ran"
    create(calls, GRID)
    experiment = calls.get("/api/v1/experiments/1")[1]["experiment"]
    assert config["checkpoint_storage"] == experiment["config"]["checkpoint_storage"]
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
