"""Adds Determined's promises to its trials to a launch: variables, info files, library, hook. Pure.

Called by the dialect for every attempt of a run with these conventions, in whatever dialect the run was
written.
"""

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tarmac.dialects.located import Problems, from_plain
from tarmac.dialects.schema import read_value
from tarmac.dialects.section import Value
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.node.attempt.protocol import LATE_PORT
from tarmac.search.space import RandomNumbers, draw
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.determined.identity import experiment_id, number_of, trial_id, uuid_of
from tarmac.systems.determined.library import ADDRESS, NO_RETRY, library_steps
from tarmac.systems.determined.merging import complete, normalise
from tarmac.systems.determined.reader import USER_TOKEN, WORK_DIRECTORY
from tarmac.systems.determined.schema import partial_record
from tarmac.systems.determined.search import ranges
from tarmac.systems.determined.storage import CHECKPOINTS

RUN_DIRECTORY = "/run/determined"
CONNECTION = "connection"
"""The fact with the `Connection` of an attempt, if the server has a gateway."""

SHARED = "/determined_shared_fs"
"""The path inside a run where the library of every version stores checkpoints of type `shared_fs`."""

MODEL = "/run/determined/train/model"
"""The path of the code that the library stores with each checkpoint."""

TOKEN = "no-access"
_FILES = "determined"
_FIRST_PORT = 61_000
_PORTS_EACH = 3
_PORT_BLOCKS = 1_500
"""Ports above MASTER_PORT and above Linux's ephemeral ports: no program checks whether they are free."""

_GLOO = "GLOO_SOCKET_IFNAME"
_LOADS_ALL = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""PyTorch from 2.6 on loads only weights by default. Checkpoints of trial classes hold more, and the library
does not request it. A run that sets the variable itself keeps its value.
"""

HOOK = "startup-hook.sh"
_START = f"""\
export DET_WORKDIR="$PWD"
_tarmac_sdk="${{PYTHONPATH##*:}}"
set -e
if [ -n "$TCD_STARTUP_HOOK" ]; then set -x; eval "$TCD_STARTUP_HOOK"; {{ set +x; }} 2>/dev/null; fi
if [ -f {HOOK} ]; then set -x; . ./{HOOK}; {{ set +x; }} 2>/dev/null; fi
set +e
if [ "${{_tarmac_sdk##*/}}" = shim ]; then
    case ":$PYTHONPATH:" in
    *":$_tarmac_sdk:"*) ;;
    *) PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$_tarmac_sdk" ;;
    esac
    export PYTHONPATH="$PYTHONPATH:$_tarmac_sdk/../../systems/determined/standins"
fi
exec "$@"
"""
"""Runs before the entry point, in the same shell, so that exports of the hook apply to it. The shell prints
the commands of the hook, and the first failing command ends the trial. The directory for `import tarmac` is
followed by the one for `determined.launch`, which stays last on PYTHONPATH whatever the hook sets.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What replaces Determined's master for an attempt: the gateway's address, a token, and numbers.

    `steps` is the progress of `checkpoint`, the first one; None: the file decides.
    """

    url: str
    token: str
    experiment: int
    trial: int
    checkpoint: str | None = None
    steps: int = 0


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch of a trial."""
    trial = _Trial(run=run, attempt=attempt, launch=launch)
    return launch._replace(
        setup=(*launch.setup, *library_steps(run.spec.conventions.facts)),
        nodes=tuple(trial.on(node) for node in launch.nodes),
    )


_RELAXED = partial_record(EXPERIMENT)
"""The table without required fields."""


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """One attempt of a trial, in Determined's terms."""

    run: Run
    attempt: Attempt
    launch: Launch

    def on(self, node: NodeLaunch) -> NodeLaunch:
        """The part of one node, with variables, info files and paths."""
        mounts = [
            *node.mounts,
            Mount(source=_FILES, target=RUN_DIRECTORY, variables=("DET_RUN_DIR",)),
            Mount(source=".", target=WORK_DIRECTORY),
        ]
        config, files = self.config, dict(node.files)
        if self.connection is not None:
            taken = {mount.target for mount in mounts}
            config, place = _with_storage(config, taken)
            if place is not None and place != CHECKPOINTS and place not in taken:
                mounts.append(Mount(source=CHECKPOINTS, target=place))
            mounts.append(Mount(source=".", target=MODEL))
            files[f"{_FILES}/train/model/README"] = "The code is seen here where it can be.\n"
        written = json.dumps(config)
        workers = (
            worker._replace(
                argv=("bash", "-c", _START, "entrypoint", *worker.argv),
                env={**worker.env, **self._variables(node, worker), "DET_EXPERIMENT_CONFIG": written},
            )
            for worker in node.workers
        )
        return node._replace(
            files=files | self._files(node, config), mounts=tuple(mounts), workers=tuple(workers)
        )

    @cached_property
    def connection(self) -> Connection | None:
        """The connection with the gateway. In facts of a native file there is none."""
        found = self.run.spec.conventions.facts.get(CONNECTION)
        return found if isinstance(found, Connection) else None

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The complete configuration, with defaults for fields that a hand-written native file omits."""
        config = complete(_sound(self.run.spec.conventions.facts.get("config")), EXPERIMENT)
        seed = (config["reproducibility"] or {}).get("experiment_seed")  # else the time of submission
        seed = int(self.run.created_at) if seed is None else int(seed)
        config["reproducibility"] = {"experiment_seed": seed}
        config.pop("version", None)
        return config

    @cached_property
    def drawn(self) -> tuple[Mapping[str, Any], int]:
        """The trial's hyperparameters, and its seed: the same in every attempt.

        Those of a run without a search are as of the first trial of a search.
        """
        if self.run.spec.trial is not None:
            return self.run.spec.parameters or {}, self.run.spec.trial.seed
        numbers = RandomNumbers(self.config["reproducibility"]["experiment_seed"])
        return draw(tuple(ranges(self.config["hyperparameters"])), numbers)

    @cached_property
    def numbers(self) -> tuple[int, int]:
        """The numbers of experiment and trial: assigned by the server, else derived from their ids."""
        if self.connection is not None:
            return self.connection.experiment, self.connection.trial
        trial = self.run.spec.trial  # a run with one trial is its own experiment
        return experiment_id(trial.experiment if trial is not None else self.run.id), trial_id(self.run.id)

    @cached_property
    def checkpoint(self) -> str | None:
        """The first checkpoint, if the server knows or the file names one."""
        if self.connection is not None and self.connection.checkpoint is not None:
            return self.connection.checkpoint
        searcher = self.config["searcher"]
        return searcher.get("source_checkpoint_uuid") if searcher else None

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """The names of the task and of the attempt."""
        task = f"{self.numbers[0]}.{uuid_of('trial', self.run.id)}"
        return {"task_id": task, "allocation_id": f"{task}.{self.attempt.number}"}

    @cached_property
    def common(self) -> Mapping[str, str]:
        """The variables that are equal for every worker."""
        port = _FIRST_PORT + _PORTS_EACH * (number_of("ports", self.attempt.id, below=_PORT_BLOCKS) - 1)
        (experiment, trial), (hyperparameters, seed) = self.numbers, self.drawn
        found = {
            "DET_CLUSTER_ID": uuid_of("cluster", self.attempt.allocation.cluster),
            "DET_EXPERIMENT_ID": str(experiment),
            "DET_TRIAL_ID": str(trial),
            "DET_TRIAL_RUN_ID": str(self.attempt.number),
            "DET_TRIAL_SEED": str(seed),
            "DET_TASK_ID": self.ids["task_id"],
            "DET_TASK_TYPE": "TRIAL",
            "DET_ALLOCATION_ID": self.ids["allocation_id"],
            "DET_USER": self.run.user,
            "DET_HPARAMS": json.dumps(hyperparameters),
            "DET_RESOURCES_TYPE": "docker-container",
            "DET_TASK_LOGGING_METADATA": json.dumps({**self.ids, "trial_id": trial}),
            "DET_PYTHON_EXECUTABLE": "python3",
            "DET_USE_TLS": "false",
            "DET_SEGMENT_ENABLED": "false",
            "DTRAIN_SSH_PORT": str(port),
            "INTER_TRAIN_PROCESS_COMM_PORT_1": str(port + 1),
            "INTER_TRAIN_PROCESS_COMM_PORT_2": str(port + 2),
            "C10D_PORT": str(self.attempt.master_port or LATE_PORT),
        }
        connection = self.connection
        if connection is None:
            found |= {"DET_MASTER": ADDRESS, "DET_RETRY_CONFIG": NO_RETRY, "DET_SESSION_TOKEN": TOKEN}
        else:
            found |= {"DET_MASTER": connection.url, "DET_SESSION_TOKEN": connection.token}
        found["DET_STEPS_COMPLETED"] = str(connection.steps if connection is not None else 0)
        if self.checkpoint is not None:
            found["DET_LATEST_CHECKPOINT"] = str(self.checkpoint)
        hook = self.run.spec.conventions.facts.get("startup_hook")
        return {**found, "TCD_STARTUP_HOOK": str(hook)} if hook else found

    def _variables(self, node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        resources = uuid_of("container", self.attempt.id, node.node)
        found = {
            **self.common,
            "DET_AGENT_ID": node.node,
            "DET_SLOT_IDS": json.dumps(list(worker.slots)),
            "DET_RESOURCES_ID": resources,
            "DET_CONTAINER_ID": resources,
        }
        if self.connection is not None:
            found[_LOADS_ALL] = worker.env.get(_LOADS_ALL, "1")
            found[USER_TOKEN] = worker.env.get(USER_TOKEN, self.connection.token)
        interface = worker.env.get(_GLOO)
        return {**found, "DET_INTER_NODE_NETWORK_INTERFACE": interface} if interface else found

    def _files(self, node: NodeLaunch, config: Mapping[str, Any]) -> dict[str, str]:
        """The info files of one node, which `determined.get_cluster_info()` reads."""
        (experiment, trial), (hyperparameters, seed) = self.numbers, self.drawn
        contents: dict[str, Mapping[str, Any]] = {
            "cluster": {
                **self.ids,
                "master_url": self.common["DET_MASTER"],
                "cluster_id": self.common["DET_CLUSTER_ID"],
                "agent_id": node.node,
                "slot_ids": _slots(node),
                "session_token": self.common["DET_SESSION_TOKEN"],
                "task_type": "TRIAL",
                "master_cert_name": None,
                "master_cert_file": None,
                "latest_checkpoint": self.checkpoint,
            },
            "trial": {
                "trial_id": trial,
                "experiment_id": experiment,
                "trial_seed": seed,
                "hparams": hyperparameters,
                "config": config,
                "steps_completed": int(self.common["DET_STEPS_COMPLETED"]),
                "trial_run_id": self.attempt.number,
                "debug": bool(self.config["debug"]),
                "inter_node_network_interface": node.workers[0].env.get(_GLOO) if node.workers else None,
            },
            "resources": {"gpu_uuids": []},
            "rendezvous": {
                "container_addrs": [other.address for other in self.launch.nodes],
                "container_rank": node.rank,
                "container_slot_counts": [len(_slots(other)) for other in self.launch.nodes],
            },
        }
        files = {f"{_FILES}/info/{name}.json": json.dumps(content) for name, content in contents.items()}
        return files | {f"{_FILES}/workdir/README": "The working directory is seen here where it can be.\n"}


def _sound(hyperparameters: Any) -> Mapping[str, Any]:
    """A configuration from facts, checked again: a native file may contain anything there.

    A launch cannot report problems, so a configuration with problems counts as empty.
    """
    if not isinstance(hyperparameters, Mapping):
        return {}
    problems = Problems(None)
    found = read_value(Value(from_plain(hyperparameters), "config", problems), _RELAXED)
    return {} if problems else normalise(found)


def _with_storage(config: Mapping[str, Any], taken: set[str]) -> tuple[Mapping[str, Any], str | None]:
    """The configuration for the library, and the path of its checkpoints if tarmac stores them, else None.

    A directory shared by the cluster becomes the run's own at tarmac. The library before 0.24 does not know
    the type `directory`, so storage that the file does not name is `shared_fs`, which every version knows. A
    directory that the user has mounted stays the user's.
    """
    storage = dict(config.get("checkpoint_storage") or {})
    kind, path = storage.get("type"), storage.get("container_path")
    if kind == "directory" and isinstance(path, str) and posixpath.normpath(path) != CHECKPOINTS:
        return config, None if _is_below(path, taken) else posixpath.normpath(path)
    if kind not in ("directory", "shared_fs"):
        return config, None
    if kind == "directory":
        storage.pop("container_path", None)
        storage |= {"type": "shared_fs", "host_path": CHECKPOINTS}
    return {**config, "checkpoint_storage": storage}, SHARED


def _is_below(path: str, taken: set[str]) -> bool:
    """Whether a path is inside a mount."""
    whole = posixpath.normpath(path)
    return any(whole == target or whole.startswith(target.rstrip("/") + "/") for target in taken)


def _slots(node: NodeLaunch) -> list[int]:
    return [slot for worker in node.workers for slot in worker.slots]
