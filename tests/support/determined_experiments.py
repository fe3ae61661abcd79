"""Experiments through the gateway, as `det` creates them, for the tests of it."""

from __future__ import annotations

import base64
from typing import Any

from determined_calls import DeterminedCalls
from served import Served
from tarmac.control.reconcilers.search import search_pass

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
    search_pass(here.plane.control, here.plane.searches)


def states(calls: DeterminedCalls, number: int) -> tuple[str, list[str]]:
    experiment = calls.get(f"/api/v1/experiments/{number}")[1]["experiment"]
    trials = calls.get(f"/api/v1/experiments/{number}/trials")[1]["trials"]
    return experiment["state"], [each["state"] for each in trials]
