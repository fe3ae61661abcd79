"""The main job in small, in an image with Python and PyTorch: on this machine, and on a real Slurm."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from image_ends import ends_without_remains
from images import busybox_image
from shell import Shell
from slurm_clusters import Missing, running_slurm
from training_images import PYTHON_PATH, write_training_image
from trainings import EPOCHS, train_with_a_pause

SITE = "name: site\nengine: slurm\nsettings: {{directory: {directory}, partition: batch}}\n"
VARIABLES = {"EPOCHS": EPOCHS, "GLOO_SOCKET_IFNAME": "lo", "PATH": PYTHON_PATH}

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, a directory."""
    return str(write_training_image(tmp_path_factory.mktemp("training") / "image"))


@pytest.fixture
def site(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Slurm of two nodes with two processors each, added as a cluster; its name."""
    try:
        with running_slurm(tmp_path / "slurm", cpus_per_node=2) as variables:
            monkeypatch.setenv("SLURM_CONF", variables["SLURM_CONF"])
            text = SITE.format(directory=tmp_path / "shared")
            shell.tarmac("clusters", "add", shell.write("site.yaml", text), code=0)
            yield "site"
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def test_a_training_in_an_image_pauses_and_resumes(shell: Shell, image: str) -> None:
    """I5, D11, D12: the SDK, the artifacts and the variables of two nodes work in the image."""
    train_with_a_pause(shell, "--rehearse", "2x1", "--image", image, variables=VARIABLES)


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm-story")
def test_images_on_a_real_slurm(shell: Shell, site: str, image: str, tmp_path: Path) -> None:
    """I5, D11: as on this machine, with two tasks of one job; and nothing is left, however a run ends."""
    train_with_a_pause(shell, "--cluster", site, "--slots", "4", "--image", image, variables=VARIABLES)
    box = busybox_image().write_archive(tmp_path / "box.tar")
    ends_without_remains(shell, "--image", str(box), "--cluster", site)
