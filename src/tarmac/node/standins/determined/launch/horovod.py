"""`python3 -m determined.launch.horovod`: horovodrun with the slots of the run's node (D4).

On several nodes horovodrun would start its workers by ssh, which nodes do not serve: there every node starts
its own, with the variables of `horovodrun --gloo`, and they meet at a server beside rank 0.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Dict, Sequence, Tuple

from . import _start

_RANKS = "HOROVOD_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK"
_PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "peers")

_DEFAULTS = (
    "--gloo-timeout-seconds=240",
    "--fusion-threshold-mb=64",
    "--cycle-time-ms=1",
    "--cache-capacity=1024",
    "--no-hierarchical-allreduce",
    "--no-hierarchical-allgather",
)
_VALUES = {
    "fusion-threshold-mb": "FUSION_THRESHOLD",
    "cycle-time-ms": "CYCLE_TIME",
    "cache-capacity": "CACHE_CAPACITY",
    "autotune-log-file": "AUTOTUNE_LOG",
    "autotune-warmup-samples": "AUTOTUNE_WARMUP_SAMPLES",
    "autotune-steps-per-sample": "AUTOTUNE_STEPS_PER_SAMPLE",
    "autotune-bayes-opt-max-samples": "AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
    "autotune-gaussian-process-noise": "AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
    "timeline-filename": "TIMELINE",
    "stall-check-warning-time-seconds": "STALL_CHECK_TIME_SECONDS",
    "stall-check-shutdown-time-seconds": "STALL_SHUTDOWN_TIME_SECONDS",
    "num-nccl-streams": "NUM_NCCL_STREAMS",
    "thread-affinity": "THREAD_AFFINITY",
    "gloo-timeout-seconds": "GLOO_TIMEOUT_SECONDS",
    "log-level": "LOG_LEVEL",
}
_SWITCHES = {
    "hierarchical-allreduce": ("no-hierarchical-allreduce", "HIERARCHICAL_ALLREDUCE"),
    "hierarchical-allgather": ("no-hierarchical-allgather", "HIERARCHICAL_ALLGATHER"),
    "torus-allreduce": ("no-torus-allreduce", "TORUS_ALLREDUCE"),
    "autotune": ("no-autotune", "AUTOTUNE"),
    "timeline-mark-cycles": ("no-timeline-mark-cycles", "TIMELINE_MARK_CYCLES"),
    "no-stall-check": ("stall-check", "STALL_CHECK_DISABLE"),
    "mpi-threads-disable": ("no-mpi-threads-disable", "MPI_THREADS_DISABLE"),
    "log-without-timestamp": ("log-with-timestamp", "LOG_HIDE_TIME"),
}
"""Options of horovodrun, and the variables of its workers that say the same, without HOROVOD_; of a switch
also the option that turns it off."""


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Run horovodrun on one node, the workers themselves on several."""
    place = _start.shape()
    if place.nodes > 1:
        tuning = _variables(_DEFAULTS)[0]
        changes, others = _variables(overrides)
        if others:
            sys.stderr.write(
                "warning: on several nodes the workers are started without horovodrun, and no variable of "
                f"theirs says the same as {' '.join(others)}: this is ignored\n"
            )
        tuning = {name: os.environ.get(name, value) for name, value in tuning.items()}
        workers = [_worker(place, local, script) for local in range(place.processes)]
        return _start.run_all([(argv, {**tuning, **changes, **env}) for argv, env in workers])
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


def _variables(options: Sequence[str]) -> Tuple[Dict[str, str], _start.Argv]:
    """The variables that say the same as options of horovodrun, and the options that no variable says."""
    parser = argparse.ArgumentParser(prog="horovodrun", usage="horovodrun [OPTIONS...]", add_help=False)
    for option, name in _VALUES.items():
        parser.add_argument(f"--{option}", dest=name, type=_bytes if name == "FUSION_THRESHOLD" else str)
    for option, (opposite, name) in _SWITCHES.items():
        parser.add_argument(f"--{option}", dest=name, action="store_const", const="1")
        parser.add_argument(f"--{opposite}", dest=name, action="store_const", const="0")
    found, others = parser.parse_known_args(options)
    return {f"HOROVOD_{name}": value for name, value in vars(found).items() if value is not None}, others


def _bytes(mebibytes: str) -> str:
    if not mebibytes.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number is expected, not {mebibytes!r}")
    return str(int(mebibytes) << 20)


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
