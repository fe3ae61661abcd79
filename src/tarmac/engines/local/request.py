"""What the local engine is sent: an attempt directory to be made, and the runners to start in it.

Rendered by `LocalEngine.render` without touching the disk; the dry run prints this very object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.engines.local.layout import Layout
from tarmac.launch.quoting import join
from tarmac.model.errors import InvalidInput
from tarmac.model.launch import Launch, NodeLaunch, WorkerLaunch
from tarmac.node import protocol

HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRequest:
    """One attempt for this machine: `document` becomes attempt.json in `directory`.

    Printed, it shows everything but the token.
    """

    attempt_id: str
    directory: Path
    document: Mapping[str, Any]

    def __str__(self) -> str:
        shown = {**self.document, "token": HIDDEN}
        lines = [f"{self.directory / protocol.ATTEMPT_FILE}:", json.dumps(shown, indent=2)]
        for node in self.document["nodes"]:
            lines.append(f"on node {node['node']} ({node['address']}), rank {node['rank']}:")
            lines.extend(f"  setup: {join(step)}" for step in self.document["setup"])
            lines.extend(
                f"  {worker['role']}.{worker['replica']}.{worker['index']}: {join(worker['argv'])}"
                for worker in node["workers"]
            )
        return "\n".join(lines)


def render(launch: Launch, layout: Layout, sdk: Path) -> LocalRequest:
    """The request for a launch; raises InvalidInput for an attempt id that cannot be a path."""
    directory = layout.attempt(launch.attempt_id)
    if directory is None:
        raise InvalidInput(f"{launch.attempt_id!r} cannot be the id of an attempt")
    document = {
        "protocol": protocol.PROTOCOL,
        "attempt_id": launch.attempt_id,
        "run_id": launch.run_id,
        "run_name": launch.run_name,
        "number": launch.number,
        "token": launch.token,
        "notify": str(layout.notify),
        "code": str(layout.code(launch.code_digest)) if launch.code_digest else None,
        "setup": [list(step) for step in launch.setup],
        "setup_env": dict(sorted(launch.setup_env.items())),
        "time_limit_s": launch.time_limit_s,
        "pause_signal": launch.pause_signal,
        "grace_s": launch.grace_s,
        "ran_s": launch.ran_s,
        "allotted_s": launch.allotted_s,
        "allots_setup": launch.allots_setup,
        "artifacts": {kind: str(path) for kind, path in layout.artifacts(launch.run_id).items()},
        "sdk": str(sdk),
        "nodes": [_node(node) for node in launch.nodes],
    }
    return LocalRequest(attempt_id=launch.attempt_id, directory=directory, document=document)


def _node(node: NodeLaunch) -> dict[str, Any]:
    return {
        "node": node.node,
        "address": node.address,
        "rank": node.rank,
        "files": dict(node.files),
        "mounts": [
            {
                "source": mount.source,
                "target": mount.target,
                "read_only": mount.read_only,
                "variables": list(mount.variables),
            }
            for mount in node.mounts
        ],
        "workers": [_worker(worker) for worker in node.workers],
    }


def _worker(worker: WorkerLaunch) -> dict[str, Any]:
    return {
        "role": worker.role,
        "replica": worker.replica,
        "index": worker.index,
        "argv": list(worker.argv),
        "env": dict(sorted(worker.env.items())),
        "slots": list(worker.slots),
        "stop_on_failure": worker.stop_on_failure,
    }
