"""`python3 -m determined.launch.horovod`: horovodrun with the slots of the run's node (D4)."""

from __future__ import annotations

import sys

from . import _start


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Run horovodrun on one node; on several it starts its workers by ssh, which nodes do not serve."""
    place = _start.shape()
    if place.nodes > 1:
        sys.stderr.write(
            f"error: horovodrun reaches other nodes by ssh, which tarmac does not serve: this run has "
            f"{place.nodes} nodes; put all its slots on one, or use determined.launch.torch_distributed\n"
        )
        return 1
    return _start.run(
        [
            "horovodrun",
            "-np",
            str(place.processes),
            "-H",
            f"localhost:{place.processes}",
            "--start-timeout=1200",
            "--gloo-timeout-seconds=240",
            "--fusion-threshold-mb=64",
            "--cycle-time-ms=1",
            "--cache-capacity=1024",
            "--no-hierarchical-allreduce",
            "--no-hierarchical-allgather",
            *overrides,
            *_start.wrapped("HOROVOD_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK", script),
        ],
        {"USE_HOROVOD": "1", "DET_CHIEF_IP": place.address},
    )


if __name__ == "__main__":
    _start.main("horovod", "HVD_OVERRIDES", start)
