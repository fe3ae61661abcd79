"""The main job in small on a real Ray: trained on two machines, the server killed, paused, and resumed."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from image_ends import ends_without_remains
from images import busybox_image
from ray_clusters import RayNodes
from shell import Shell
from training_images import PYTHON_PATH, write_training_image
from trainings import EPOCHS, train_with_a_pause

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(900),
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo"),
]


@pytest.fixture
def shell(tmp_path: Path, cluster: RayNodes) -> Iterator[Shell]:
    """A user whose server has added the Ray, with one slot on each node."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    settings = {**cluster.settings(), "slots": "1", "directory": str(cluster.far / "trained")}
    address = settings.pop("address")
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    made.tarmac("clusters", "add", "gpus", "--engine", "ray", "--address", address, *given, code=0)
    try:
        for number in range(3):
            made.until("nodes", said=f"h{number}.gpus")
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("boxed", [False, True], ids=["on the nodes", "in an image"])
def test_a_training_goes_on_where_it_was_paused(shell: Shell, tmp_path: Path, boxed: bool) -> None:
    """D11, D12, I14: the server is killed besides."""
    path, options = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", ["--cluster", "gpus"]
    if boxed:
        path = PYTHON_PATH
        options += ["--image", str(write_training_image(tmp_path / "image"))]
    train_with_a_pause(
        shell,
        *options,
        variables={"EPOCHS": EPOCHS, "PATH": path},
        between=lambda: os.kill(shell.json("server", "status")["pid"], signal.SIGKILL),
    )


def test_nothing_of_a_run_in_an_image_outlives_it(shell: Shell, tmp_path: Path) -> None:
    box = busybox_image().write_archive(tmp_path / "box.tar")
    ends_without_remains(shell, "--image", str(box), "--cluster", "gpus")
