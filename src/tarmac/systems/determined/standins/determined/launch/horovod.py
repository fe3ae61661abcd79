"""`python3 -m determined.launch.horovod`: horovodrun with the slots of the run's node (D4).

On several nodes horovodrun would start its workers by ssh, which nodes do not serve: then every node starts
its own, with the variables of `horovodrun --gloo`, and a server beside rank 0 is their rendezvous. The
installed Horovod converts the options of horovodrun to variables.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Dict

from . import _start

_RANKS = "HOROVOD_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK"
_HERE = os.path.dirname(os.path.abspath(__file__))
_PEERS = os.path.join(_HERE, *[".."] * 5, "node/peers")

_DEFAULTS = (
    "--gloo-timeout-seconds=240",
    "--fusion-threshold-mb=64",
    "--cycle-time-ms=1",
    "--cache-capacity=1024",
    "--no-hierarchical-allreduce",
    "--no-hierarchical-allgather",
)


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Run horovodrun on one node, the workers directly on several."""
    place = _start.shape()
    if place.nodes > 1:
        options = _variables(overrides)
        workers = [_worker(place, local, script) for local in range(place.processes)]
        return _start.run_all([(argv, {**options, **env}) for argv, env in workers])
    return _start.run(
        [
            "horovodrun",
            "-np",
            str(place.processes),
            "-H",
            f"localhost:{place.processes}",
            "--start-timeout=1200",
            *_DEFAULTS,
            *overrides,
            *_start.wrapped(_RANKS, script),
        ],
        {"USE_HOROVOD": "1", "DET_CHIEF_IP": place.address},
    )


def _variables(overrides: _start.Argv) -> Dict[str, str]:
    """The workers' variables that horovodrun derives from its options."""
    try:
        launch = importlib.import_module("horovod.runner.launch")
        parser = importlib.import_module("horovod.runner.common.util.config_parser")
    except ImportError as problem:
        if overrides:
            sys.stderr.write(f"warning: {' '.join(overrides)} is ignored: Horovod reads it, and {problem}\n")
        return {}
    sys.argv = ["horovodrun", "-np", "1", *_DEFAULTS, *overrides, "worker"]
    found: Dict[str, str] = parser.set_env_from_args({}, launch.parse_args())
    return found


def _worker(place: _start.Shape, local: int, script: _start.Argv) -> _start.Started:
    rank = place.node_rank * place.processes + local
    env = {
        "USE_HOROVOD": "1",
        "DET_CHIEF_IP": place.address,
        "MASTER_ADDR": place.address,
        "MASTER_PORT": place.port,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(place.nodes * place.processes),
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(place.processes),
        "HOROVOD_CROSS_RANK": str(place.node_rank),
        "HOROVOD_CROSS_SIZE": str(place.nodes),
        "HOROVOD_HOSTNAME": f"node{place.node_rank}",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": place.address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": place.port,
    }
    meeting = [sys.executable, _PEERS, "rendezvous"] if rank == 0 else []
    return [*meeting, *_start.wrapped(_RANKS, script)], env


if __name__ == "__main__":
    _start.main("horovod", "HVD_OVERRIDES", start)
