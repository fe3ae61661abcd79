"""Small bases of images, made on the spot: with Python, with Debian's apt, and one for Apptainer.

For tests that run the files of other systems in their images, without a network.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import struct
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
_ARCHITECTURES = {"x86_64": b"02\0", "aarch64": b"04\0", "ppc64le": b"06\0", "s390x": b"11\0"}
_ARCHITECTURE = _ARCHITECTURES[os.uname().machine]
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_SYSTEM = 0x4004


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
    """An image of Apptainer with the files of a directory."""
    program = shutil.which("mksquashfs")
    if program is None:
        pytest.skip("apt-get install squashfs-tools")
    squashed = path.with_suffix(".squashfs")
    subprocess.run([program, root, squashed, "-noappend", "-quiet", "-no-progress"], check=True)
    files = squashed.read_bytes()
    squashed.unlink()
    begin, names = 4096, b"fs".ljust(128, b"\0")
    data = begin + 2 * _DESCRIPTOR.size
    extra = struct.pack("<ii3s", 1, 2, _ARCHITECTURE).ljust(384, b"\0")
    other = _DESCRIPTOR.pack(0x4001, True, 1, 1, 0, data, 0, 0, 0, 0, 0, 0, names, b"".ljust(384, b"\0"))
    system = _DESCRIPTOR.pack(_SYSTEM, True, 2, 1, 0, data, len(files), len(files), 0, 0, 0, 0, names, extra)
    header = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + _ARCHITECTURE + bytes(16)
    header += struct.pack("<qqqqqqqq", 0, 0, 0, 2, begin, 2 * _DESCRIPTOR.size, data, len(files))
    path.write_bytes(header.ljust(begin, b"\0") + other + system + files)
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
