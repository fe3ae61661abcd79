"""What is no image, or lies about what it is: `node/container/archives.py` names it."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from images import archive, build
from tarmac.node.container import archives, failures
from tarmac.node.container.archives import Archive
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Images
from tarmac.node.container.pulling import Puller

DEEP = "[" * 200_000
HERE = os.uname().machine
DIGEST = f"sha256:{'a' * 64}"


def index(*entries: Any) -> str:
    return json.dumps({"schemaVersion": 2, "manifests": list(entries)})


STRANGE: dict[str, dict[str, Any]] = {
    "index no object": {"index.json": "[]"},
    "index nested": {"index.json": DEEP},
    "index null": {"index.json": "null"},
    "index no list": {"index.json": '{"manifests": 3}'},
    "index of texts": {"index.json": index("a")},
    "index of no digest": {"index.json": index({"digest": 5})},
    "index of two, odd platform": {"index.json": index({"platform": "arm"}, {"platform": [1]})},
    "index of no file": {"index.json": index({"digest": DIGEST})},
    "manifest nested": {"index.json": index({"digest": DIGEST}), f"blobs/{DIGEST.replace(':', '/')}": DEEP},
    "manifest no object": {"index.json": index({"digest": DIGEST}), f"blobs/{DIGEST.replace(':', '/')}": "7"},
    "docker no list": {"manifest.json": "{}"},
    "docker empty": {"manifest.json": "[]"},
    "docker of numbers": {"manifest.json": '[{"Config": 5, "Layers": 6}]'},
    "docker of no files": {"manifest.json": '[{"Config": "c", "Layers": ["l"]}]'},
    "docker nested": {"manifest.json": '[{"Config": "c", "Layers": []}]', "c": DEEP},
    "docker odd config": {"manifest.json": '[{"Config": "c", "Layers": []}]', "c": "[1]"},
    "neither": {"data": "1"},
}


@pytest.mark.parametrize("files", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("packed", [True, False])
def test_what_is_no_image_is_said_to_be_none(files: dict[str, str], tmp_path: Path, packed: bool) -> None:
    """Never another exception: a server looks at what its users name."""
    place = tmp_path / "image"
    if packed:
        place.write_bytes(archive([(name, text.encode()) for name, text in files.items()]))
    else:
        for name, text in {"oci-layout": "{}", **files}.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    with pytest.raises(ImageProblem) as looked:
        archives.check_image(str(place), HERE)
    assert looked.value.kind == failures.DAMAGED
    with pytest.raises(ImageProblem):
        Puller(Images(str(tmp_path / "images")), lambda _: None).ensure(str(place))


@pytest.mark.parametrize(
    "config", [{"config": {"Env": 5}}, {"config": {"Env": [1, "A=1", "B=\0"]}}, {"config": 3}, {}]
)
def test_an_odd_configuration_has_no_variables_of_its_own(config: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps(config).encode()
    files = [("manifest.json", b'[{"Config": "c", "Layers": []}]'), ("c", text)]
    (tmp_path / "image.tar").write_bytes(archive([*files]))
    archives.check_image(str(tmp_path / "image.tar"), HERE)


def layout(directory: Path) -> Path:
    """An image as a directory."""
    packed = build(archive([("data", b"1")])).write_archive(directory / "whole.tar")
    place = directory / "layout"
    with tarfile.open(packed) as tar:
        tar.extractall(place, filter="data")
    return place


def test_a_directory_is_read_through_a_link_to_it(tmp_path: Path) -> None:
    place = layout(tmp_path)
    (tmp_path / "latest").symlink_to(place)
    archives.check_image(str(tmp_path / "latest"), HERE)
    assert Puller(Images(str(tmp_path / "images")), lambda _: None).ensure(str(tmp_path / "latest")).digest


@pytest.mark.parametrize("how", ["link", "pipe", "outside", "absolute"])
def test_nothing_outside_of_a_directory_is_read_nor_waited_for(how: str, tmp_path: Path) -> None:
    """Its files are somebody's who may be no friend of the server's: links, pipes, and names with `..`."""
    place, secret = tmp_path / "image", tmp_path / "secret"
    place.mkdir()
    (place / "oci-layout").write_text("{}")
    secret.write_text(json.dumps({"architecture": "secret"}))
    names = {"outside": "../secret", "absolute": str(secret)}
    entry = [{"Config": names.get(how, "config"), "Layers": []}]
    (place / "manifest.json").write_text(json.dumps(entry))
    if how == "link":
        (place / "config").symlink_to(secret)
    if how == "pipe":
        os.mkfifo(place / "config")
    with pytest.raises(ImageProblem) as found:
        archives.check_image(str(place), HERE)
    assert "linux/secret" not in found.value.message
    with pytest.raises(ImageProblem):
        Puller(Images(str(tmp_path / "images")), lambda _: None).ensure(str(place))


def test_an_archive_of_many_parts_is_not_listed_whole(tmp_path: Path) -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for number in range(10_001):
            tar.addfile(tarfile.TarInfo(str(number)))
    (tmp_path / "many.tar").write_bytes(written.getvalue())
    with pytest.raises(ImageProblem, match="more than 10,000 parts"):
        Archive(str(tmp_path / "many.tar"))
