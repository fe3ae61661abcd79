"""docs/using/images.md does what it says: its files are written, its commands typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from guides import newcomer, page
from images import archive, build, busybox_image, registry

LOGIN = ("ada", "the-password")
"""As the page has it."""

PYTORCH = "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"
PYTHON = archive([("bin/python", b"#!/bin/sh\necho in the image: $1\n")])


@pytest.mark.heavy
def test_the_page_on_images_does_what_it_says(tmp_path: Path) -> None:
    """A public image, by a mirror of Docker Hub; a private one, by secret: run in, shown, listed, removed; a
    file for another machine, refused."""
    build(archive([]), architecture="arm64").write_archive(tmp_path / "arm.tar")
    settings = tmp_path / "home/.local/state/tarmac/settings.toml"
    public = {PYTORCH: busybox_image(PYTHON)}
    private = {"team/train:3": busybox_image(archive([("data", b"1")]))}
    text = page("using/images.md").replace("/images/arm.tar", str(tmp_path / "arm.tar"))
    with (
        registry(images=public) as hub,
        registry(images=private, login=LOGIN) as double,
        newcomer(tmp_path / "home") as reader,
    ):
        settings.parent.mkdir(parents=True, mode=0o700)
        settings.write_text(f"[containers.mirrors]\n'docker.io' = '{hub.address}'\n")
        reader.follow(text.replace("registry.example.org", double.address))
        reader.expect(f"tarmac run --image {PYTORCH} -- python hello", "in the image: hello\n")
        reader.expect("tarmac run --no-container --image nowhere/at-all -- echo outside", "outside\n")
        for checks in ("tarmac doctor", "tarmac clusters check local"):
            reader.expect(checks, "images ...runs start in their images")
    assert hub.pulls()
    assert double.pulls()
