"""What each launcher's processes find: the variables by which their framework knows its world.

Called by `environment`. Each family is what the framework itself reads where nobody starts it by its own
command: torch's `env://`, DeepSpeed's and accelerate's on top of it, JAX's of `jax.distributed.initialize()`,
those that `horovodrun --gloo` sets.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.launch import variables
from tarmac.launch.ranks import Place
from tarmac.model.spec import Launcher

_NO_DAEMON = "tarmac"
"""Stands where Open MPI names its daemon: JAX has no variables of its own for a process's number and takes
those of Open MPI, where this one is there."""

_SEE_THEIR_NODE = frozenset({Launcher.TORCH, Launcher.DEEPSPEED, Launcher.ACCELERATE, Launcher.HOROVOD})
"""Their users choose a device by LOCAL_RANK, so every process sees those of all processes of its node."""


def visible_slots(launcher: Launcher, place: Place) -> tuple[int, ...]:
    """The slots that a process sees: those of its node, or the one of its own."""
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
    """What the process of one rank finds beside what every worker does.

    `interface`: the network by which gloo connects processes (None: it finds one).
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
                variables.JAX_DEVICES: "0",  # of those that the process sees: its own alone
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
    """Horovod's own names. Processes meet at a server beside the first one: see `node/peers/rendezvous`."""
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
