"""docs/using/images.md does what it says: its files are written, its commands typed."""

from __future__ import annotations

from pathlib import Path

from guides import newcomer, page
from images import busybox_image, registry

LOGIN = ("ada", "the-password")
"""As the page has it."""


def test_the_page_on_images_does_what_it_says(tmp_path: Path) -> None:
    """A private image, by secret: run in, shown, listed and removed, of a registry of this machine."""
    with (
        registry(images={"team/train:3": busybox_image()}, login=LOGIN) as double,
        newcomer(tmp_path / "home") as reader,
    ):
        reader.follow(page("using/images.md").replace("registry.example.org", double.address))
    assert double.pulls()
