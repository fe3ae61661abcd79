"""Checkpoints that trials reported, with requests as `det checkpoint` sends them."""

from __future__ import annotations

from determined_calls import DeterminedCalls
from determined_experiments import SINGLE, create, turn
from served import Served

UUID = "6f4b2f8a-43f0-4d3a-9bbd-3d1f2f0a7c11"


def test_files_of_a_checkpoint_are_removed_by_patterns(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    turn(here)
    turn(here)
    trial = calls.get("/api/v1/trials/1")[1]["trial"]
    saved = {
        "uuid": UUID,
        "taskId": trial["taskId"],
        "metadata": {"steps_completed": 3},
        "resources": {"a.pt": "3", "b.txt": "4"},
    }
    assert calls.post("/api/v1/checkpoints", saved)[0] == 200
    trial = calls.get("/api/v1/trials/1")[1]["trial"]
    assert (trial["checkpointCount"], trial["totalCheckpointSize"]) == (1, "7")
    assert trial["wallClockTime"] > 0
    removal = {"checkpointGlobs": ["*.txt"], "checkpointUuids": [UUID]}
    assert calls.post("/api/v1/checkpoints/rm", removal)[0] == 200
    found = calls.get(f"/api/v1/checkpoints/{UUID}")[1]["checkpoint"]
    assert (found["state"], found["resources"]) == ("STATE_PARTIALLY_DELETED", {"a.pt": "3"})
    assert calls.post("/api/v1/checkpoints/rm", {**removal, "checkpointUuids": ["other"]})[0] == 404
