"""The variables of each launcher, by which processes find their world. Called by `environment`.

Each framework reads its own variables when its own launch command does not start it: torch's `env://`, those
of DeepSpeed and accelerate on top of it, JAX's of `jax.distributed.initialize()`, and those that `horovodrun
--gloo` sets.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.launch import variables
from tarmac.launch.ranks import Place
from tarmac.model.spec import Launcher

_NO_DAEMON = "tarmac"
"""The value for the address of Open MPI's daemon.

JAX has no variable for a process's number and reads Open MPI's if this one is set.
"""

_SEE_THEIR_NODE = frozenset({Launcher.TORCH, Launcher.DEEPSPEED, Launcher.ACCELERATE, Launcher.HOROVOD})
"""Their users choose a device by LOCAL_RANK, so every process sees the slots of all processes of its node."""


def visible_slots(launcher: Launcher, place: Place) -> tuple[int, ...]:
    """The slots that a process sees: those of its node, or its own one."""
    return place.node_slots if launcher in _SEE_THEIR_NODE else place.slots


def launcher_variables(
    launcher: Launcher,
    place: Place,
    *,
    nodes: int,
    node_rank: int,
    address: str,
    port: str,
    run_id: str,
    interface: str | None = None,
) -> Mapping[str, str]:
    """The variables of one rank's process beyond those of every worker.

    `interface`: the network by which gloo connects processes (None: gloo chooses one).
    """
    rank, count = str(place.rank), str(place.count)
    found = {
        variables.LAUNCHER: launcher.value,
        variables.MASTER_ADDR: address,
        variables.RANK: rank,
        variables.WORLD_SIZE: count,
        variables.LOCAL_RANK: str(place.local_rank),
        variables.LOCAL_WORLD_SIZE: str(place.local_count),
    }
    match launcher:
        case Launcher.TORCH | Launcher.ACCELERATE:
            found |= {
                variables.GROUP_RANK: str(node_rank),
                variables.GROUP_WORLD_SIZE: str(nodes),
                variables.ROLE_RANK: rank,
                variables.ROLE_WORLD_SIZE: count,
                variables.TORCH_RUN: run_id,
            }
        case Launcher.DEEPSPEED:
            found |= {
                variables.CROSS_RANK: str(node_rank),
                variables.CROSS_SIZE: str(nodes),
                variables.LOCAL_SIZE: str(place.local_count),
            }
        case Launcher.JAX:
            found |= {
                variables.JAX_COORDINATOR: f"{address}:{port}",
                variables.JAX_DEVICES: "0",  # the only device that the process sees
                variables.MPI_DAEMON: _NO_DAEMON,
                variables.MPI_RANK: rank,
                variables.MPI_SIZE: count,
                variables.MPI_LOCAL_RANK: str(place.local_rank),
            }
        case Launcher.HOROVOD:
            found |= _of_horovod(place, nodes=nodes, node_rank=node_rank, address=address, port=port)
            if interface is not None:
                found[variables.HOROVOD_INTERFACE] = interface
        case Launcher.PLAIN | Launcher.MPI:
            pass
    return found


def _of_horovod(place: Place, *, nodes: int, node_rank: int, address: str, port: str) -> dict[str, str]:
    """Horovod's own names.

    Its processes meet at a server beside the first one: see `node/peers/rendezvous`.
    """
    return {
        variables.HOROVOD_RANK: str(place.rank),
        variables.HOROVOD_SIZE: str(place.count),
        variables.HOROVOD_LOCAL_RANK: str(place.local_rank),
        variables.HOROVOD_LOCAL_SIZE: str(place.local_count),
        variables.HOROVOD_CROSS_RANK: str(node_rank),
        variables.HOROVOD_CROSS_SIZE: str(nodes),
        variables.HOROVOD_HOSTNAME: place.placement.node,
        variables.HOROVOD_CONTROLLER: "gloo",
        variables.HOROVOD_CPU_OPERATIONS: "gloo",
        variables.HOROVOD_ADDRESS: address,
        variables.HOROVOD_PORT: port,
    }
