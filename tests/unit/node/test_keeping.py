"""Which images a node keeps: `node/container/images.py`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from images import archive, build
from tarmac.node.container.images import Images, locked
from tarmac.node.container.pulling import Puller

SHARED = archive([("base", os.urandom(300_000))])
DAY_S = 86_400.0


def pulled(directory: Path, name: str, *, days: float) -> str:
    """An image of a shared layer and one of its own, last used so long ago; its digest."""
    path = build(SHARED, archive([(name, os.urandom(100_000))])).write_archive(directory / f"{name}.tar")
    images = Images(str(directory / "images"))
    digest = Puller(images, lambda _: None).ensure(str(path)).digest
    os.close(images.use(digest))
    used_at = time.time() - days * DAY_S
    os.utime(Path(images.directory, "uses", digest.replace(":", "-")), (used_at, used_at))
    return digest


def names(directory: Path) -> list[str]:
    return [Path(record["name"]).stem for record in Images(str(directory / "images")).listing()]


def layers(directory: Path) -> list[Path]:
    return [path for path in (directory / "images" / "layers").iterdir() if path.suffix != ".lock"]


def test_images_go_by_age_but_for_those_in_use(tmp_path: Path) -> None:
    old, _, held = (pulled(tmp_path, name, days=days) for name, days in (("a", 9), ("b", 1), ("c", 9)))
    images = Images(str(tmp_path / "images"))
    handle = images.use(held)
    os.utime(tmp_path / "images" / "uses" / held.replace(":", "-"), (0, 0))
    gone = images.clear(limit_bytes=None, unused_days=7)
    assert [Path(name).stem for name in gone] == ["a"]
    assert names(tmp_path) == ["b", "c"]
    assert not images.remove(held)
    os.close(handle)
    assert images.remove(held)
    assert images.remove(old), "it is gone already"
    assert names(tmp_path) == ["b"]


def test_beyond_the_limit_those_go_that_were_used_longest_ago(tmp_path: Path) -> None:
    for name, days in (("new", 0), ("oldest", 3), ("older", 2)):
        pulled(tmp_path, name, days=days)
    directory = str(tmp_path / "images")
    sizes = Images(directory).layer_sizes()
    assert len(sizes) == 4  # the shared layer counts once
    total = sum(sizes.values())
    assert 550_000 < total < 900_000
    assert Images(directory).clear(limit_bytes=total, unused_days=None) == []
    Images(directory).clear(limit_bytes=total - 1, unused_days=None)
    assert names(tmp_path) == ["new", "older"]
    assert len(layers(tmp_path)) == 3
    Images(directory).clear(limit_bytes=0, unused_days=None)
    assert names(tmp_path) == []
    assert layers(tmp_path) == []


def test_what_ended_pulls_have_left_goes(tmp_path: Path) -> None:
    """Half of a layer at once, unless somebody is at it; a whole one that no image has after a day."""
    pulled(tmp_path, "kept", days=0)
    images = Images(str(tmp_path / "images"))
    whole = layers(tmp_path)
    for name in ("ended.part", "working.part", "orphan"):
        (Path(images.layers) / name / "etc").mkdir(parents=True)
    with locked(f"{images.layers}/working.lock"):
        images.clear(limit_bytes=None, unused_days=None)
        assert {path.name for path in layers(tmp_path)} - {path.name for path in whole} == {
            "working.part",
            "orphan",
        }
    images.clear_halves()
    with images.fetching():
        images.clear_layers(before=time.time() + DAY_S)
    assert (Path(images.layers) / "orphan").exists(), "somebody may be about to use it"
    images.clear_layers(before=time.time() + DAY_S)
    assert sorted(layers(tmp_path)) == sorted(whole)
    assert names(tmp_path) == ["kept"]
