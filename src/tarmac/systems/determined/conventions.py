"""Adds Determined's promises to its trials to a launch: variables, info files, library, hook. Pure.

Called by the dialect for every attempt of a run with these conventions, in whatever dialect the run was
written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tarmac.dialects.conventions import with_files, with_variables
from tarmac.dialects.located import from_plain
from tarmac.dialects.problems import Problems
from tarmac.dialects.schema import read_value
from tarmac.dialects.section import Value
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch
from tarmac.node.attempt.protocol import LATE_PORT
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.determined.hyperparameters import draw_values
from tarmac.systems.determined.identity import experiment_id, number_of, trial_id, uuid_of
from tarmac.systems.determined.library import ADDRESS, NO_RETRY, library_steps
from tarmac.systems.determined.merging import complete, normalise
from tarmac.systems.determined.reader import WORK_DIRECTORY

RUN_DIRECTORY = "/run/determined"
NUMBERS = "numbers"
"""The fact with the numbers of experiment and trial, if a server assigned them."""

TOKEN = "no-access"
_FILES = "determined"
_FIRST_PORT = 61_000
_PORTS_EACH = 3
_PORT_BLOCKS = 1_500
"""Ports above MASTER_PORT and above Linux's ephemeral ports: no program checks whether they are free."""

_GLOO = "GLOO_SOCKET_IFNAME"

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
    export PYTHONPATH="$PYTHONPATH:$_tarmac_sdk/../standins"
fi
exec "$@"
"""
"""Runs before the entry point, in the same shell, so that exports of the hook apply to it. The shell prints
the commands of the hook, and the first failing command ends the trial. The directory for `import tarmac` is
followed by the one for `determined.launch`, which stays last on PYTHONPATH whatever the hook sets.
"""


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch of a trial."""
    trial = _Trial(run=run, attempt=attempt, launch=launch)
    launch = with_variables(launch, trial.variables)
    launch = with_files(
        launch,
        trial.files,
        (
            Mount(source=_FILES, target=RUN_DIRECTORY, variables=("DET_RUN_DIR",)),
            Mount(source=".", target=WORK_DIRECTORY),
        ),
    )
    return launch._replace(
        setup=(*launch.setup, *library_steps(run.spec.conventions.facts)),
        nodes=tuple(
            node._replace(workers=tuple(_with_hook(worker) for worker in node.workers))
            for node in launch.nodes
        ),
    )


def _with_hook(worker: WorkerLaunch) -> WorkerLaunch:
    return worker._replace(argv=("bash", "-c", _START, "entrypoint", *worker.argv))


_RELAXED = replace(
    EXPERIMENT, fields={name: replace(rule, required=None) for name, rule in EXPERIMENT.fields.items()}
)
"""The table without required fields."""


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """One attempt of a trial, in Determined's terms."""

    run: Run
    attempt: Attempt
    launch: Launch

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The complete configuration, with defaults for fields that a hand-written native file omits."""
        config = complete(_sound(self.run.spec.conventions.facts.get("config")), EXPERIMENT)
        config["reproducibility"] = {"experiment_seed": self._experiment_seed(config)}
        config.pop("version", None)
        return config

    @cached_property
    def hyperparameters(self) -> Mapping[str, Any]:
        if self.run.spec.trial is not None:
            return self.run.spec.parameters or {}
        return draw_values(self.config["hyperparameters"], self.seed)

    @cached_property
    def experiment(self) -> str:
        """The source of the experiment's number: a run with one trial is its own experiment."""
        trial = self.run.spec.trial
        return trial.experiment if trial is not None else self.run.id

    @cached_property
    def seed(self) -> int:
        """The trial's seed: the same in every attempt."""
        if self.run.spec.trial is not None:
            return self.run.spec.trial.seed
        return number_of("trial seed", str(self.config["reproducibility"]["experiment_seed"])) - 1

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of experiment and trial: assigned by the server, else derived from their ids."""
        given = self.run.spec.conventions.facts.get(NUMBERS)
        if isinstance(given, Mapping) and all(isinstance(each, int) for each in given.values()):
            return {"experiment": 0, "trial": 0, **given}
        return {"experiment": experiment_id(self.experiment), "trial": trial_id(self.run.id)}

    @cached_property
    def whole_id(self) -> str:
        return f"{self.numbers['experiment']}.{uuid_of('trial', self.run.id)}"

    @cached_property
    def checkpoint(self) -> str | None:
        """The first checkpoint, if the file names one."""
        searcher = self.config["searcher"]
        return searcher.get("source_checkpoint_uuid") if searcher else None

    @cached_property
    def common(self) -> Mapping[str, str]:
        """The variables that are equal for every worker."""
        port = _FIRST_PORT + _PORTS_EACH * (number_of("ports", self.attempt.id, below=_PORT_BLOCKS) - 1)
        metadata = {
            "task_id": self.whole_id,
            "allocation_id": self._allocation,
            "trial_id": self.numbers["trial"],
        }
        found = {
            "DET_MASTER": ADDRESS,
            "DET_RETRY_CONFIG": NO_RETRY,
            "DET_CLUSTER_ID": uuid_of("cluster", self.attempt.allocation.cluster),
            "DET_EXPERIMENT_ID": str(self.numbers["experiment"]),
            "DET_TRIAL_ID": str(self.numbers["trial"]),
            "DET_TRIAL_RUN_ID": str(self.attempt.number),
            "DET_TRIAL_SEED": str(self.seed),
            "DET_TASK_ID": self.whole_id,
            "DET_TASK_TYPE": "TRIAL",
            "DET_ALLOCATION_ID": self._allocation,
            "DET_SESSION_TOKEN": TOKEN,
            "DET_USER": self.run.user,
            "DET_HPARAMS": json.dumps(self.hyperparameters),
            "DET_EXPERIMENT_CONFIG": json.dumps(self.config),
            "DET_STEPS_COMPLETED": "0",
            "DET_RESOURCES_TYPE": "docker-container",
            "DET_TASK_LOGGING_METADATA": json.dumps(metadata),
            "DET_PYTHON_EXECUTABLE": "python3",
            "DET_USE_TLS": "false",
            "DET_SEGMENT_ENABLED": "false",
            "DTRAIN_SSH_PORT": str(port),
            "INTER_TRAIN_PROCESS_COMM_PORT_1": str(port + 1),
            "INTER_TRAIN_PROCESS_COMM_PORT_2": str(port + 2),
            "C10D_PORT": str(self.attempt.master_port or LATE_PORT),
        }
        if self.checkpoint is not None:
            found["DET_LATEST_CHECKPOINT"] = str(self.checkpoint)
        hook = self.run.spec.conventions.facts.get("startup_hook")
        return {**found, "TCD_STARTUP_HOOK": str(hook)} if hook else found

    def variables(self, node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        """The variables of one worker."""
        resources = uuid_of("container", self.attempt.id, node.node)
        found = {
            **self.common,
            "DET_AGENT_ID": node.node,
            "DET_SLOT_IDS": json.dumps(list(worker.slots)),
            "DET_RESOURCES_ID": resources,
            "DET_CONTAINER_ID": resources,
        }
        interface = worker.env.get(_GLOO)
        return {**found, "DET_INTER_NODE_NETWORK_INTERFACE": interface} if interface else found

    def files(self, node: NodeLaunch) -> Mapping[str, str]:
        """The info files of one node, which `determined.get_cluster_info()` reads."""
        contents = {
            "cluster": self._cluster(node),
            "trial": self._trial(node),
            "resources": {"gpu_uuids": []},
            "rendezvous": {
                "container_addrs": [other.address for other in self.launch.nodes],
                "container_rank": node.rank,
                "container_slot_counts": [len(_slots(other)) for other in self.launch.nodes],
            },
        }
        files = {f"{_FILES}/info/{name}.json": json.dumps(content) for name, content in contents.items()}
        return files | {f"{_FILES}/workdir/README": "The working directory is seen here where it can be.\n"}

    def _cluster(self, node: NodeLaunch) -> Mapping[str, Any]:
        return {
            "master_url": ADDRESS,
            "cluster_id": self.common["DET_CLUSTER_ID"],
            "agent_id": node.node,
            "slot_ids": _slots(node),
            "task_id": self.whole_id,
            "allocation_id": self._allocation,
            "session_token": TOKEN,
            "task_type": "TRIAL",
            "master_cert_name": None,
            "master_cert_file": None,
            "latest_checkpoint": self.checkpoint,
        }

    def _trial(self, node: NodeLaunch) -> Mapping[str, Any]:
        return {
            "trial_id": self.numbers["trial"],
            "experiment_id": self.numbers["experiment"],
            "trial_seed": self.seed,
            "hparams": self.hyperparameters,
            "config": self.config,
            "steps_completed": 0,
            "trial_run_id": self.attempt.number,
            "debug": bool(self.config["debug"]),
            "inter_node_network_interface": node.workers[0].env.get(_GLOO) if node.workers else None,
        }

    @property
    def _allocation(self) -> str:
        return f"{self.whole_id}.{self.attempt.number}"

    def _experiment_seed(self, config: Mapping[str, Any]) -> int:
        """The seed in the file, else the time of submission, as in Determined."""
        seed = (config["reproducibility"] or {}).get("experiment_seed")
        return int(self.run.created_at) if seed is None else int(seed)


def _sound(hyperparameters: Any) -> Mapping[str, Any]:
    """A configuration from facts, checked again: a native file may contain anything there.

    A launch cannot report problems, so a configuration with problems counts as empty.
    """
    if not isinstance(hyperparameters, Mapping):
        return {}
    problems = Problems(None)
    found = read_value(Value(from_plain(hyperparameters), "config", problems), _RELAXED)
    return {} if problems else normalise(found)


def _slots(node: NodeLaunch) -> list[int]:
    return [slot for worker in node.workers for slot in worker.slots]
