"""Checks whether a training process has the world of its run: otherwise each group trains alone.

`accelerate launch --num_machines 2` without an address causes this, and exits with 0. At a process's first
report or request the SDK checks, once, the world size of torch, JAX or Horovod if one is loaded; the hook
`watch` notifies the user.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, Mapping, Optional

from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted

_LAUNCHER = "TARMAC_LAUNCHER"
_MPI_SIZE = "OMPI_COMM_WORLD_SIZE"
_TRAIN_TOGETHER = ("torch", "deepspeed", "accelerate", "jax", "horovod")
_WITHOUT_TORCH = ("jax", "horovod")
"""Launchers whose processes must be one world; those of others may work alone."""


def check(environment: Mapping[str, str]) -> None:
    """Record a difference between this process's world and its run's, unless another process did."""
    path = environment.get(protocol.WORLD_VARIABLE)
    message = mismatch(environment, sys.modules) if path is not None else None
    if path is None or message is None or os.path.exists(path):
        return
    with suppress(OSError):
        untrusted.write_new(path, message.encode())


def mismatch(environment: Mapping[str, str], modules: Mapping[str, Any]) -> Optional[str]:
    """The fault in this process's world; None if there is none, or it is unknown."""
    found = world_size(modules)
    launcher = environment.get(_LAUNCHER, "")
    if launcher in _TRAIN_TOGETHER:
        needed = int(environment.get("WORLD_SIZE", "1"))
        if found is None and launcher not in _WITHOUT_TORCH and "torch" in modules:
            found = 1
        if found is None or found == needed:
            return None
        return f"a process trains in a world of {found}, and the run has {needed} processes{_ADVICE}"
    if launcher == "mpi":
        found, needed = (int(environment.get(name, "0")) for name in (_MPI_SIZE, "WORLD_SIZE"))
        if found in (0, needed):
            return None
        return f"mpirun started {found} processes, and the run has {needed} slots{_ADVICE}"
    nodes = int(environment.get("NNODES", "1"))
    if found is None or found >= nodes:  # processes that a command starts on a node are its own matter
        return None
    return f"a process trains in a world of {found}, and the run has {nodes} nodes{_ADVICE}"


_ADVICE = ": they do not train together, unless that is meant"


def world_size(modules: Mapping[str, Any]) -> Optional[int]:
    """The number of processes in this one's world, by torch, JAX or Horovod; None if none has one."""
    torch = modules.get("torch.distributed")
    with suppress(Exception):  # another version of a library may raise anything
        if torch is not None and torch.is_available() and torch.is_initialized():
            return int(torch.get_world_size())
    jax = modules.get("jax._src.distributed")
    with suppress(Exception):
        if jax is not None and jax.global_state.num_processes:
            return int(jax.global_state.num_processes)
    for horovod in filter(None, map(modules.get, ("horovod.torch", "horovod.tensorflow", "horovod.keras"))):
        with suppress(Exception):
            if horovod.is_initialized():
                return int(horovod.size())
    return None
