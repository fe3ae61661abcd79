"""Small bases of images, made on the spot: with Python, with Debian's apt, and one for Apptainer.

For tests that run the files of other systems in their images, without a network.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from images import busybox_layer
from training_images import copy_programs, write_interpreter

_APT = ("apt-get", "dpkg", "dpkg-deb", "dpkg-split", "tar", "gzip", "rm", "diff")
_METHODS = Path("/usr/lib/apt/methods")
_STATE = (
    "var/lib/dpkg/updates",
    "var/lib/dpkg/info",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
    "var/log/apt",
    "etc/apt/apt.conf.d",
    "etc/apt/preferences.d",
)


def layer_of(root: Path) -> bytes:
    """A directory as a layer."""
    written = root.with_suffix(".layer")
    with tarfile.open(written, "w") as tar:
        tar.add(root, arcname=".", filter=_of_root)
    return written.read_bytes()


def python_layer(root: Path) -> bytes:
    """A layer with `python3`, which brings no package."""
    write_interpreter(root)
    return layer_of(root)


def apt_layer(root: Path, package: str) -> bytes:
    """A layer with apt and dpkg, and a package to install, whose program says that it is there."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("this is no Debian")
    programs = [Path(found) for found in map(shutil.which, _APT) if found]
    copy_programs([*programs, *(_METHODS / name for name in ("file", "copy", "store"))], root)
    for name in _STATE:
        (root / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    copy_programs([Path("/sbin/ldconfig")], root)
    for name in ("usr/share/dpkg/cputable", "usr/share/dpkg/tupletable", "usr/share/dpkg/ostable"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path("/") / name, root / name)
    _write_repository(root, package)
    return layer_of(root)


def write_sif(path: Path, root: Path) -> Path:
    """An image of Apptainer, with the path of its files for `standin_apptainer`."""
    path.write_text(f"{'#!/usr/bin/env run-singularity':32}SIF_MAGIC\0\n{root}\n")
    return path


def write_shell(root: Path) -> Path:
    """Fill a directory with busybox and its commands."""
    with tarfile.open(fileobj=io.BytesIO(busybox_layer())) as tar:
        tar.extractall(root, filter="tar")
    return root


def _write_repository(root: Path, package: str) -> None:
    made = root.parent / "package"
    for name, text in (
        (
            "DEBIAN/control",
            f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: t\nDescription: t\n",
        ),
        (f"usr/bin/{package}", f"#!/bin/sh\necho {package} is installed\n"),
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    (made / f"usr/bin/{package}").chmod(0o755)
    place = root / "packages"
    place.mkdir()
    file = place / f"{package}.deb"
    subprocess.run(
        ["dpkg-deb", "-Zgzip", "--root-owner-group", "--build", made, file], check=True, capture_output=True
    )
    summary, size = hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size
    described = (
        made / "DEBIAN/control"
    ).read_text() + f"Filename: ./{file.name}\nSize: {size}\nSHA256: {summary}\n"
    (place / "Packages").write_text(described)
    (root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/packages ./\n")


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
