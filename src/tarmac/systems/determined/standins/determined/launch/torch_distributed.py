"""`python3 -m determined.launch.torch_distributed`: torch.distributed.run on every node, one world (D3)."""

from __future__ import annotations

import sys

from . import _start


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Run torchrun with this node's rank; the overrides take precedence."""
    place = _start.shape()
    return _start.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            f"--nnodes={place.nodes}",
            f"--nproc_per_node={place.processes}",
            f"--node_rank={place.node_rank}",
            "--max_restarts=0",
            f"--master_addr={place.address}",
            f"--master_port={place.port}",
            "--no_python",
            *overrides,
            *_start.wrapped("RANK", script),
        ],
        {"USE_TORCH_DISTRIBUTED": "True", "DET_CHIEF_IP": place.address},
    )


if __name__ == "__main__":
    _start.main("torch_distributed", "TORCH_OVERRIDES", start)
