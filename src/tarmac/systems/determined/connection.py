"""A launch whose code may call a gateway that replaces Determined's master. Pure.

Called by the server's `launching`: `conventions` makes the launch without a gateway; a server that has one
passes it through `connected`.
"""

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.systems.determined.identity import uuid_of
from tarmac.systems.determined.storage import CHECKPOINTS

SHARED = "/determined_shared_fs"
"""The path inside a run where the library of every version stores checkpoints of type `shared_fs`."""

MODEL = "/run/determined/train/model"
"""The path of the code that the library stores with each checkpoint."""

_MODEL = "determined/train/model"
_CLUSTER = "determined/info/cluster.json"
_TRIAL = "determined/info/trial.json"
_CONFIG = "DET_EXPERIMENT_CONFIG"
_LOADS_ALL = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""PyTorch from 2.6 on loads only weights by default. Checkpoints of trial classes hold more, and the library
does not request it. A run that sets the variable itself keeps its value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The gateway data of an attempt: the address, a token, its numbers, and the first checkpoint.

    `steps` is the progress of that checkpoint. `checkpoint` None: the launch decides.
    """

    url: str
    token: str
    experiment: int
    trial: int
    run_id: str
    attempt: int
    checkpoint: str | None = None
    steps: int = 0

    @property
    def whole_id(self) -> str:
        """The trial's name in the library's variables."""
        return f"{self.experiment}.{uuid_of('trial', self.run_id)}"


def connected(launch: Launch, connection: Connection) -> Launch:
    """The launch with variables and info files for the gateway, and a path for checkpoints."""
    return launch._replace(nodes=tuple(_node(node, connection) for node in launch.nodes))


def _node(node: NodeLaunch, connection: Connection) -> NodeLaunch:
    files, taken = dict(node.files), {mount.target for mount in node.mounts}
    place: str | None = None
    if _CLUSTER in files and _TRIAL in files:
        files[_CLUSTER] = json.dumps(json.loads(files[_CLUSTER]) | _of_cluster(connection))
        trial = json.loads(files[_TRIAL])
        trial["config"], place = _with_storage(trial["config"], taken)
        files[_TRIAL] = json.dumps(trial | _of_trial(connection))
    mounts = node.mounts
    if place is not None and place != CHECKPOINTS and place not in taken:
        mounts = (*mounts, Mount(source=CHECKPOINTS, target=place))
    if _CLUSTER in files:
        files[f"{_MODEL}/README"] = "The code is seen here where it can be.\n"
        mounts = (*mounts, Mount(source=".", target=MODEL))
    workers = tuple(_worker(worker, connection, taken) for worker in node.workers)
    return node._replace(files=files, mounts=mounts, workers=workers)


def _worker(worker: WorkerLaunch, connection: Connection, taken: set[str]) -> WorkerLaunch:
    env = {name: value for name, value in worker.env.items() if name != "DET_RETRY_CONFIG"}
    metadata = json.loads(env.get("DET_TASK_LOGGING_METADATA") or "{}")
    allocation = f"{connection.whole_id}.{connection.attempt}"
    metadata |= {"task_id": connection.whole_id, "allocation_id": allocation, "trial_id": connection.trial}
    env |= {
        _LOADS_ALL: env.get(_LOADS_ALL, "1"),
        "DET_MASTER": connection.url,
        "DET_SESSION_TOKEN": connection.token,
        "DET_USER_TOKEN": connection.token,
        "DET_EXPERIMENT_ID": str(connection.experiment),
        "DET_TRIAL_ID": str(connection.trial),
        "DET_TASK_ID": connection.whole_id,
        "DET_ALLOCATION_ID": allocation,
        "DET_TASK_LOGGING_METADATA": json.dumps(metadata),
        "DET_STEPS_COMPLETED": str(connection.steps),
    }
    if connection.checkpoint is not None:
        env["DET_LATEST_CHECKPOINT"] = connection.checkpoint
    if _CONFIG in env:
        env[_CONFIG] = json.dumps(_with_storage(json.loads(env[_CONFIG]), taken)[0])
    return worker._replace(env=env)


def _of_cluster(connection: Connection) -> Mapping[str, Any]:
    found = {
        "master_url": connection.url,
        "session_token": connection.token,
        "task_id": connection.whole_id,
        "allocation_id": f"{connection.whole_id}.{connection.attempt}",
    }
    return found | ({"latest_checkpoint": connection.checkpoint} if connection.checkpoint is not None else {})


def _of_trial(connection: Connection) -> Mapping[str, Any]:
    return {
        "trial_id": connection.trial,
        "experiment_id": connection.experiment,
        "steps_completed": connection.steps,
    }


def _with_storage(config: Mapping[str, Any], taken: set[str]) -> tuple[dict[str, Any], str | None]:
    """The configuration for the library, and the path of its checkpoints if tarmac stores them, else None.

    A directory shared by the cluster becomes the run's own at tarmac. The library before 0.24 does not know
    the type `directory`, so storage that the file does not name is `shared_fs`, which every version knows. A
    directory that the user has mounted stays the user's.
    """
    storage = dict(config.get("checkpoint_storage") or {})
    kind, path = storage.get("type"), storage.get("container_path")
    if kind == "directory" and isinstance(path, str) and posixpath.normpath(path) != CHECKPOINTS:
        return dict(config), None if _is_below(path, taken) else posixpath.normpath(path)
    if kind not in ("directory", "shared_fs"):
        return dict(config), None
    if kind == "directory":
        storage.pop("container_path", None)
        storage |= {"type": "shared_fs", "host_path": CHECKPOINTS}
    return {**config, "checkpoint_storage": storage}, SHARED


def _is_below(path: str, taken: set[str]) -> bool:
    """Whether a path is inside a mount."""
    whole = posixpath.normpath(path)
    return any(whole == target or whole.startswith(target.rstrip("/") + "/") for target in taken)
