"""`python3 -m determined.launch.deepspeed`: DeepSpeed's own command on every node, without sshd (D5)."""

from __future__ import annotations

import os
import sys
import tempfile

from . import _start


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Run `deepspeed --no_ssh` with this node's rank; each node starts its own processes."""
    place = _start.shape()
    with tempfile.TemporaryDirectory(prefix="hosts-") as directory:
        path = os.path.join(directory, "hostfile")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"node{rank} slots={place.processes}\n" for rank in range(place.nodes))
        return _start.run(
            [
                sys.executable,
                "-m",
                "deepspeed.launcher.runner",
                f"--hostfile={path}",
                "--force_multi",
                "--no_ssh",
                f"--node_rank={place.node_rank}",
                f"--master_addr={place.address}",
                f"--master_port={place.port}",
                "--no_python",
                "--no_local_rank",
                *overrides,
                *_start.wrapped("RANK", script),
            ],
            {"USE_DEEPSPEED": "1", "DET_CHIEF_IP": place.address},
        )


if __name__ == "__main__":
    _start.main("deepspeed", "DEEPSPEED_ARGS", start)
