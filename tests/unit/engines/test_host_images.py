"""The images of a cluster whose nodes share a directory: listed, removed and cleared by way of its host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from images import archive, build
from tarmac.engines.hosts.engine import HostFiles
from tarmac.engines.hosts.host import Host, local_host
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.model.abilities import KeepsImages
from tarmac.node.container.images import Images
from tarmac.node.container.pulling import Puller
from tarmac.node.wire.frames import encode


class Keeper(HostFiles):
    """An engine, as far as images are concerned."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def _reachable(self) -> dict[str, Host]:
        return {"": self._host}

    def _host_with(self, attempt_id: str, path: str) -> Host:
        return self._host


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(local_host(tmp_path))


def pulled(keeper: Keeper, directory: Path) -> Images:
    """One image is there."""
    path = build(archive([("a", b"1")])).write_archive(directory / "a.tar")
    images = Images(str(keeper._host.layout.images))
    Puller(images, lambda _: None).ensure(str(path))
    return images


def test_images_of_a_shared_directory_are_of_no_node(keeper: Keeper, tmp_path: Path) -> None:
    assert keeper.images() == []
    images = pulled(keeper, tmp_path)
    (image,) = keeper.images()
    assert (image.node, image.name, image.in_use) == ("", str(tmp_path / "a.tar"), False)
    handle = images.use(image.digest)
    assert not keeper.remove_image(image)
    assert keeper.clear_images(limit_bytes=0, unused_days=None) == 0
    os.close(handle)
    assert keeper.clear_images(limit_bytes=0, unused_days=None) == 1
    assert keeper.remove_image(image)  # again is no harm


def test_what_is_answered_can_travel(keeper: Keeper, tmp_path: Path) -> None:
    pulled(keeper, tmp_path)
    assert encode({"result": keeper._host.call("images", directory=str(keeper._host.layout.images))})
    assert issubclass(SlurmEngine, KeepsImages)
