"""Whole launches as JSON: what an engine is handed, for the shapes of run that users write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from launches import launch, node, placement
from tarmac.model.progress import WorkerPlacement
from tarmac.node.attempt.document import to_json

HERE = Path(__file__).parent
NEAR = [node("local-1", "127.0.0.2", cpus=2), node("local-2", "127.0.0.3", cpus=2)]
CASES: dict[str, tuple[str, list[WorkerPlacement]]] = {
    "hello": ("command: echo hello", [placement("main", 0, "local-1")]),
    "torchrun-on-two-nodes": (
        "name: digits\nslots: 4\ncode: .\ncommand: torchrun --nnodes=$NNODES train.py\n",
        [placement("main", 0, "local-1", 0, 1), placement("main", 1, "local-2", 4, 5)],
    ),
    "roles-and-processes": (
        "roles:\n"
        "  trainer: {slots: 2, command: [python, train.py]}\n"
        "  pair:\n"
        "    replicas: 2\n"
        "    on_failure: continue\n"
        "    processes: [{command: a, resources: 1}, {command: b}]\n"
        "setup: pip install .\n"
        'environment: {venv: .venv, variables: {HOSTILE: "a\'b\\n$c"}}\n',
        [
            placement("trainer", 0, "local-1", 0, 1),
            placement("pair", 0, "local-1", 2),
            placement("pair", 1, "local-2", 0),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_launch(name: str) -> None:
    source, placements = CASES[name]
    found = json.dumps(to_json(launch(source, NEAR, placements)), indent=1) + "\n"
    assert_golden(HERE / f"{name}.json", found)
