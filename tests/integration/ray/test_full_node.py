"""A node of a real Ray whose disk is full, as a user of a whole server meets it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_clusters import RayNodes
from shell import Shell

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

FULL = "is full"
DISK_MIB = 64

SAVES = """name: saves
cluster: gpus
hostnames: [h1]
command: |
  echo kept > $CHECKPOINT_ARTIFACT_PATH/step-1
  echo saved
  trap 'exit 0' TERM
  while true; do sleep 0.1; done
"""
SMALL = "name: {name}\ncluster: gpus\n{where}command: echo done\n"


@pytest.fixture
def shell(tmp_path: Path, cluster: RayNodes) -> Iterator[Shell]:
    """A user whose server has added the Ray; on node 1 the directory is on a small disk."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    small = cluster.far / "small"
    cluster.on(1, "mkdir", str(small))
    cluster.on(1, "mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(small))
    settings = {**cluster.settings(), "directory": str(small)}
    address = settings.pop("address")
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    made.tarmac("clusters", "add", "gpus", "--engine", "ray", "--address", address, *given, code=0)
    for number in range(3):
        made.until("nodes", said=f"h{number}.gpus")
    yield made
    made.close()
    cluster.on(1, "umount", "-l", str(small), check=False)


def test_a_run_avoids_a_full_disk_and_what_was_saved_there_is_kept(shell: Shell, cluster: RayNodes) -> None:
    shell.tarmac("run", "-d", shell.write("saves.yaml", SAVES), code=0)
    shell.until("logs", "saves", said="saved")
    filling = cluster.far / "small/filling"
    cluster.on(1, "dd", "if=/dev/zero", f"of={filling}", "bs=4k", check=False)
    shell.until("nodes", said=FULL)
    shell.tarmac(
        "run", "-d", shell.write("there.yaml", SMALL.format(name="there", where="hostnames: [h1]\n"))
    )
    shell.until("why", "there", said=FULL)
    shell.tarmac("run", shell.write("else.yaml", SMALL.format(name="else", where="")), code=0)
    assert "h1" not in str(shell.json("show", "else")["attempts"][-1]["nodes"])
    shell.tarmac("stop", "saves", "--wait", code=0)
    assert "checkpoint" in shell.tarmac("artifacts", "ls", "saves", code=0).stdout
    cluster.on(1, "rm", str(filling))
    shell.tarmac("wait", "there", code=0)
