"""The environment of a worker and of the setup steps. Called by `launch.compose`.

Each layer wins over those before it: defaults, the submitter's shell (recorded at submission), the virtual
environment, the run file's own variables, tarmac's variables. The node adds facts that only it knows (HOME
and the like): see `WorkerLaunch` in `node/attempt/document.py`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tarmac.launch import variables
from tarmac.launch.container import container_launch
from tarmac.launch.launchers import launcher_variables, visible_slots
from tarmac.launch.parameters import trial_variables
from tarmac.launch.topology import Assignment
from tarmac.model.cluster import Node
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import ON_FIRST_NODE, Mode, RunSpec
from tarmac.node.attempt.protocol import LATE_PORT

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def setup_environment(run: Run, attempt: Attempt) -> dict[str, str]:
    """The environment of setup steps: the workers' without the variables that differ between workers."""
    return {
        **_surroundings(run.spec),
        **run.spec.environment.variables,
        variables.RUN_ID: run.id,
        variables.RUN_NAME: run.name,
        variables.ATTEMPT: str(attempt.number),
        **trial_variables(run),
        **_of_array(run),
    }


def _of_array(run: Run) -> dict[str, str]:
    """The variables for the place of a run in its array."""
    if run.spec.array is None or run.array_id is None:
        return {}
    indices = run.spec.array.values()
    return {
        variables.ARRAY_ID: run.array_id,
        variables.ARRAY_INDEX: str(run.array_index),
        variables.ARRAY_COUNT: str(len(indices)),
        variables.ARRAY_MIN: str(indices[0]),
        variables.ARRAY_MAX: str(indices[-1]),
    }


def common_environment(
    run: Run, attempt: Attempt, *, setup: Mapping[str, str], first: Node, one_machine: bool
) -> dict[str, str]:
    """The environment common to all workers of an attempt: that of the setup steps, the rendezvous, its
    rules.

    `first` is the node of rank 0. If the nodes are not known yet, its address and the port are placeholders
    that the nodes replace.
    """
    defaults = {variables.GLOO_INTERFACE: "lo"} if one_machine else {}
    meeting = {
        variables.MASTER_ADDR: first.address,
        variables.MASTER_PORT: str(attempt.master_port or LATE_PORT),
    }
    return {**defaults, **setup, **meeting, **_rules(run, attempt)}


def worker_environment(
    assignment: Assignment,
    *,
    common: Mapping[str, str],
    nodes: Mapping[str, Node],
    cpus: float,
    neighbours: int,
) -> dict[str, str]:
    """The whole environment of one worker.

    `nodes` are those of the attempt, by name; `cpus` are those of its own node that the attempt may use;
    `neighbours` counts the attempt's workers there.
    """
    node = nodes[assignment.placement.node]
    return {
        variables.THREADS: str(_threads(assignment, node, cpus=cpus, neighbours=neighbours)),
        **common,
        variables.ROLE: assignment.role.name,
        variables.REPLICA: str(assignment.placement.replica),
        variables.REPLICAS: str(assignment.replicas),
        variables.WORKER: str(assignment.index),
        variables.WORKERS: str(assignment.neighbours),
        variables.NNODES: str(assignment.nodes),
        variables.NODE_RANK: str(assignment.node_rank),
        variables.N_PROC: str(assignment.processes_on_node),
        variables.VISIBLE_SLOTS: ",".join(map(str, assignment.slots)),
        **_of_launcher(assignment, common=common, nodes=nodes),
    }


def _of_launcher(
    assignment: Assignment, *, common: Mapping[str, str], nodes: Mapping[str, Node]
) -> dict[str, str]:
    launcher, place = assignment.role.launcher, assignment.place
    if launcher in ON_FIRST_NODE:
        return {variables.LAUNCHER: launcher.value, variables.WORLD_SIZE: str(assignment.role.slots)}
    if launcher is None or place is None:
        return {}
    found = launcher_variables(
        launcher,
        place,
        nodes=assignment.nodes,
        node_rank=assignment.node_rank,
        address=nodes[place.first_node].address,
        port=common[variables.MASTER_PORT],
        run_id=common[variables.RUN_ID],
        interface=common.get(variables.GLOO_INTERFACE),
    )
    return {**found, variables.VISIBLE_SLOTS: ",".join(map(str, visible_slots(launcher, place)))}


def on_one_machine(nodes: Iterable[Node]) -> bool:
    """Whether all these nodes are this one machine: they share its network and its processors."""
    return all(_is_loopback(node.address) for node in nodes)


def _rules(run: Run, attempt: Attempt) -> dict[str, str]:
    """The variables for the rules of a run: whether it fails on NaN, and how it shares its slots."""
    found = {}
    if run.spec.stop_on_nan:
        found[variables.STOP_ON_NAN] = "1"
    if attempt.allotted_s is not None:
        found[variables.ALLOTTED_MS] = str(round(attempt.allotted_s * 1000))
    if run.spec.mode in (Mode.CYCLE, Mode.INTERRUPTIBLE):
        found[variables.COMPUTE_MODE] = run.spec.mode.value
        found[variables.CYCLE_COUNT] = str(attempt.number)
        if attempt.allotted_s is not None:
            found[variables.CYCLE_TIME_MS] = found[variables.ALLOTTED_MS]
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


def _surroundings(spec: RunSpec) -> dict[str, str]:
    """PATH and related variables: the defaults, then the submitter's, then the virtual environment before
    both.

    In a container the image has its own defaults, and the submitter's shell does not apply.
    """
    environment = spec.environment
    if container_launch(spec) is not None:
        found = {variables.UNBUFFERED: "1"}
        return found if environment.venv is None else {**found, variables.VIRTUAL_ENV: environment.venv}
    found = {variables.PATH: USUAL_PATH, variables.UNBUFFERED: "1"}
    found |= {name: value for name, value in environment.inherited.items() if value}
    if environment.venv is not None:
        found[variables.VIRTUAL_ENV] = environment.venv
        found[variables.PATH] = f"{environment.venv}/bin:{found[variables.PATH]}"
    return found


@lru_cache(maxsize=1 << 16)
def _is_loopback(address: str) -> bool:
    """Whether this is an address of the present machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a host name
        return address == "localhost"
