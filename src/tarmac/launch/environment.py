"""The environment of a worker and of the setup steps, and a run's parameters. Called by `launch.compose`.

Each layer wins over those before it: defaults, the submitter's shell (recorded at submission), the virtual
environment, the run file's own variables, tarmac's variables. The node adds facts that only it knows (HOME
and the like): see `WorkerLaunch` in `node/attempt/document.py`. Parameters are in commands, as
`${parameters.lr}`, and variables of a trial; `control` refuses unknown names.
docs/using/variables.md explains the variables, and a test compares them with that page.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from tarmac.launch.quoting import quote
from tarmac.launch.topology import Assignment
from tarmac.model.cluster import Node
from tarmac.model.lifecycle import Mode
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import ON_FIRST_NODE, Command, Launcher, RunSpec
from tarmac.node.attempt.protocol import LATE_PORT

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Environments(NamedTuple):
    """The environments of an attempt: of its `setup` steps, and `common` to its workers.

    `nodes` are those of the attempt, by name. `sharing` counts those on one machine, among which its
    processors are divided evenly.
    """

    setup: Mapping[str, str]
    common: Mapping[str, str]
    nodes: Mapping[str, Node]
    sharing: int

    def of(self, assignment: Assignment, *, neighbours: int) -> dict[str, str]:
        """The whole environment of one worker; `neighbours` counts the attempt's workers on its node."""
        node = self.nodes[assignment.placement.node]
        cpus = node.capacity.cpus / self.sharing
        return {
            "OMP_NUM_THREADS": str(_threads(assignment, node, cpus=cpus, neighbours=neighbours)),
            **self.common,
            "TARMAC_ROLE": assignment.role.name,
            "TARMAC_REPLICA": str(assignment.placement.replica),
            "TARMAC_REPLICAS": str(assignment.replicas),
            "TARMAC_WORKER": str(assignment.index),
            "TARMAC_WORKERS": str(assignment.neighbours),
            "NNODES": str(assignment.nodes),
            "NODE_RANK": str(assignment.node_rank),
            "N_PROC": str(assignment.processes_on_node),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, assignment.slots)),
            **self._of_launcher(assignment),
        }

    def _of_launcher(self, assignment: Assignment) -> Mapping[str, str]:
        """The variables of a launcher, beyond those of every worker."""
        launcher, place = assignment.role.launcher, assignment.place
        if launcher in ON_FIRST_NODE:
            return {"TARMAC_LAUNCHER": launcher.value, "WORLD_SIZE": str(assignment.role.slots)}
        if launcher is None or place is None:
            return {}
        address, port = self.nodes[place.first_node].address, self.common["MASTER_PORT"]
        slots = place.node_slots if launcher in _SEE_THEIR_NODE else assignment.slots
        rank, count = str(place.rank), str(place.count)
        local_rank, local_count = str(place.local_rank), str(place.local_count)
        nodes, node_rank = str(assignment.nodes), str(assignment.node_rank)
        found = {
            "TARMAC_LAUNCHER": launcher.value,
            "MASTER_ADDR": address,
            "RANK": rank,
            "WORLD_SIZE": count,
            "LOCAL_RANK": local_rank,
            "LOCAL_WORLD_SIZE": local_count,
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, slots)),
            **_FIXED.get(launcher, {}),
        }
        match launcher:
            case Launcher.TORCH | Launcher.ACCELERATE:
                found |= {
                    "GROUP_RANK": node_rank,
                    "GROUP_WORLD_SIZE": nodes,
                    "ROLE_RANK": rank,
                    "ROLE_WORLD_SIZE": count,
                    "TORCHELASTIC_RUN_ID": self.common["TARMAC_RUN_ID"],
                }
            case Launcher.DEEPSPEED:
                found |= {"CROSS_RANK": node_rank, "CROSS_SIZE": nodes, "LOCAL_SIZE": local_count}
            case Launcher.JAX:
                found |= {
                    "JAX_COORDINATOR_ADDRESS": f"{address}:{port}",
                    "OMPI_COMM_WORLD_RANK": rank,
                    "OMPI_COMM_WORLD_SIZE": count,
                    "OMPI_COMM_WORLD_LOCAL_RANK": local_rank,
                }
            case Launcher.HOROVOD:  # its processes meet at a server beside the first: `node/peers/rendezvous`
                found |= {
                    "HOROVOD_RANK": rank,
                    "HOROVOD_SIZE": count,
                    "HOROVOD_LOCAL_RANK": local_rank,
                    "HOROVOD_LOCAL_SIZE": local_count,
                    "HOROVOD_CROSS_RANK": node_rank,
                    "HOROVOD_CROSS_SIZE": nodes,
                    "HOROVOD_HOSTNAME": assignment.placement.node,
                    "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
                    "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
                }
                if "GLOO_SOCKET_IFNAME" in self.common:
                    found["HOROVOD_GLOO_IFACE"] = self.common["GLOO_SOCKET_IFNAME"]
        return found


def environments(
    run: Run, attempt: Attempt, nodes: Mapping[str, Node], *, in_container: bool
) -> Environments:
    """The environments of an attempt on these nodes.

    The workers have that of the setup steps, the rendezvous and the rules of the run. If the nodes are not
    known yet, the address of the first and the port are placeholders that the nodes replace.
    """
    ranked = [nodes[name] for name in attempt.allocation.nodes]
    one_machine = all(_is_loopback(node.address) for node in ranked)
    setup = setup_environment(run, attempt, in_container=in_container)
    defaults = {"GLOO_SOCKET_IFNAME": "lo"} if one_machine else {}
    meeting = {"MASTER_ADDR": ranked[0].address, "MASTER_PORT": str(attempt.master_port or LATE_PORT)}
    common = {**defaults, **setup, **meeting, **_rules(run, attempt)}
    return Environments(setup, common, nodes, len(ranked) if one_machine else 1)


def setup_environment(run: Run, attempt: Attempt, *, in_container: bool) -> dict[str, str]:
    """The environment of setup steps: the workers' without the variables that differ between workers."""
    return {
        **_surroundings(run.spec, in_container=in_container),
        **run.spec.environment.variables,
        "TARMAC_RUN_ID": run.id,
        "TARMAC_RUN_NAME": run.name,
        "TARMAC_ATTEMPT": str(attempt.number),
        **trial_variables(run),
        **_of_array(run),
    }


def _of_array(run: Run) -> dict[str, str]:
    """The variables for the place of a run in its array."""
    if run.spec.array is None or run.array_id is None:
        return {}
    indices = run.spec.array.values()
    return {
        "TARMAC_ARRAY_ID": run.array_id,
        "TARMAC_ARRAY_INDEX": str(run.array_index),
        "TARMAC_ARRAY_COUNT": str(len(indices)),
        "TARMAC_ARRAY_MIN": str(indices[0]),
        "TARMAC_ARRAY_MAX": str(indices[-1]),
    }


def _rules(run: Run, attempt: Attempt) -> dict[str, str]:
    """The variables for the rules of a run: whether it fails on NaN, and how it shares its slots."""
    found = {}
    if run.spec.stop_on_nan:
        found["TARMAC_STOP_ON_NAN"] = "1"
    if attempt.allotted_s is not None:
        found["TARMAC_ALLOTTED_MS"] = str(round(attempt.allotted_s * 1000))
    if run.spec.mode in (Mode.CYCLE, Mode.INTERRUPTIBLE):
        found["STRONG_COMPUTE_MODE"] = run.spec.mode.value
        found["STRONG_CYCLE_COUNT"] = str(attempt.number)
        if attempt.allotted_s is not None:
            found["STRONG_CYCLE_TIME_MS"] = found["TARMAC_ALLOTTED_MS"]
    return found


def _threads(assignment: Assignment, node: Node, *, cpus: float, neighbours: int) -> int:
    """The threads that one process may use without crowding out the others of its node.

    Requested processors are the worker's own. Otherwise its share of the node's `cpus` is that of its slots;
    a worker without slots shares them with the other workers of its attempt.
    """
    own_cpus = assignment.process.resources.cpus / (assignment.neighbours if assignment.place else 1)
    if own_cpus > 0:
        share = own_cpus
    elif assignment.slots and node.capacity.slots > 0:
        share = cpus * len(assignment.slots) / node.capacity.slots
    else:
        share = cpus / neighbours
    return max(1, int(share / max(1, assignment.processes)))


def _surroundings(spec: RunSpec, *, in_container: bool) -> dict[str, str]:
    """PATH and related variables: the defaults, then the submitter's, then the virtual environment before
    both.

    In a container the image has its own defaults, and the submitter's shell does not apply.
    """
    environment = spec.environment
    if in_container:
        found = {"PYTHONUNBUFFERED": "1"}
        return found if environment.venv is None else {**found, "VIRTUAL_ENV": environment.venv}
    found = {"PATH": USUAL_PATH, "PYTHONUNBUFFERED": "1"}
    found |= {name: value for name, value in environment.inherited.items() if value}
    if environment.venv is not None:
        found["VIRTUAL_ENV"] = environment.venv
        found["PATH"] = f"{environment.venv}/bin:{found['PATH']}"
    return found


@lru_cache(maxsize=1 << 16)
def _is_loopback(address: str) -> bool:
    """Whether this is an address of the present machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a host name
        return address == "localhost"


_FIXED: Mapping[Launcher, Mapping[str, str]] = {
    # The only device that the process sees. JAX has no variable for a process's number, and reads Open MPI's
    # if the address of its daemon is set, to whatever value.
    Launcher.JAX: {"JAX_LOCAL_DEVICE_IDS": "0", "OMPI_MCA_orte_hnp_uri": "tarmac"},
    Launcher.HOROVOD: {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"},
}
"""The variables of a launcher that are the same for all processes."""

_SEE_THEIR_NODE = frozenset({Launcher.TORCH, Launcher.DEEPSPEED, Launcher.ACCELERATE, Launcher.HOROVOD})
"""Their users choose a device by LOCAL_RANK, so every process sees the slots of all processes of its node."""


_NAMED = re.compile(r"\$\{parameters\.([A-Za-z0-9_.-]+)\}")


def filled(spec: RunSpec, command: Command) -> Command:
    """The command with parameter values in place of their names; names without a value stay."""
    if spec.parameters is None:
        return command
    known = _leaves(spec.parameters)
    if command.script is not None:
        return Command(script=_NAMED.sub(lambda found: _quoted(known, found), command.script))
    argv = tuple(_NAMED.sub(lambda found: known.get(found[1], found[0]), word) for word in command.argv or ())
    return Command(argv=argv)


def parameter_names(spec: RunSpec) -> list[str]:
    """The names that commands may use, such as `optimizer.lr`."""
    return list(_leaves(spec.parameters or {}))


def unknown_names(spec: RunSpec) -> list[str]:
    """The unknown parameter names in the commands of a run, its setup and its hooks."""
    known = _leaves(spec.parameters or {})
    commands = [
        *(process.command for role in spec.roles for process in role.processes),
        *(step for step in spec.setup if isinstance(step, Command)),
        *spec.hooks.before,
        *spec.hooks.after,
    ]
    words = [word for each in commands for word in ((each.script,) if each.script else each.argv or ())]
    return [name for word in words for name in _NAMED.findall(word) if name not in known]


def trial_variables(run: Run) -> dict[str, str]:
    """The variables of a trial: its parameters, its experiment, its number and its seed."""
    trial = run.spec.trial
    if trial is None:
        return {}
    values = {
        f"TARMAC_PARAM_{re.sub('[^A-Za-z0-9]', '_', name).upper()}": value
        for name, value in _leaves(run.spec.parameters or {}).items()
        if "\0" not in value
    }
    return {
        **values,
        "TARMAC_EXPERIMENT_ID": trial.experiment,
        "TARMAC_TRIAL": str(trial.number),
        "TARMAC_TRIAL_SEED": str(trial.seed),
    }


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Every value as text, by its dotted path."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _quoted(known: Mapping[str, str], found: re.Match[str]) -> str:
    value = known.get(found[1])
    return found[0] if value is None else quote(value)
