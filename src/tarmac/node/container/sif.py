"""Images of Apptainer and Singularity (SIF): a file that contains a squashfs. Called by `pulling`.

Read with `unsquashfs` (squashfs-tools), so that a node needs neither of those programs to run one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import struct
import subprocess
from typing import Callable, Mapping, NamedTuple

from tarmac.node.container import failures
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.manifests import architecture
from tarmac.node.container.room import Room
from tarmac.node.files import inside, untrusted

_MAGIC_AT, _MAGIC = 32, b"SIF_MAGIC\0"
_ARCHITECTURE_AT = 45
_DESCRIPTORS_AT = 88
"""Offsets in the header: the number of descriptors, and their start."""

_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_FILES, _SQUASHFS, _ENCRYPTED, _PRIMARY = 0x4004, 1, 5, 2
_MOST_DESCRIPTORS = 1000
_ARCHITECTURES = {"01": "386", "02": "amd64", "03": "arm", "04": "arm64", "06": "ppc64le", "11": "s390x"}

_VARIABLES = ".singularity.d/env"
_EXPORT = re.compile(r'export ([A-Za-z_][A-Za-z0-9_]*)="(?:\$\{\1:-"?)?([^"$`\\}]*)"?\}?"?')
_MOST_SCRIPT_BYTES = 1024 * 1024
_MOST_SCRIPTS = 100

_CHUNK_BYTES = 1024 * 1024
_LOOK_S = 0.1
_SOME_ATTRIBUTES_FAILED = 2
_MOST_TEXT = 300


class FileSystem(NamedTuple):
    """The position of the file system in an image's file."""

    offset_bytes: int
    size_bytes: int


def is_sif(path: str) -> bool:
    """Whether a file is an image of this kind. Raises OSError."""
    return os.path.isfile(path) and untrusted.first_bytes(path, _DESCRIPTORS_AT)[_MAGIC_AT:].startswith(
        _MAGIC
    )


def read_file_system(path: str, machine: str) -> FileSystem:
    """Find the file system. Raises ImageProblem, also if it is for another architecture; OSError."""
    header = untrusted.first_bytes(path, _DESCRIPTORS_AT + 16)
    try:
        total, begin = struct.unpack_from("<qq", header, _DESCRIPTORS_AT)
        size_bytes = _DESCRIPTOR.size * min(max(total, 0), _MOST_DESCRIPTORS)
        descriptors = list(_DESCRIPTOR.iter_unpack(untrusted.read_part(path, begin, size_bytes)))
    except (struct.error, ValueError, OSError) as error:
        raise ImageProblem(failures.DAMAGED, f"{path} is no whole image: {error}") from None
    code = header[_ARCHITECTURE_AT : _ARCHITECTURE_AT + 2].decode("latin-1")
    found, runs_here = _ARCHITECTURES.get(code), architecture(machine)
    if found is not None and found != runs_here:
        raise ImageProblem(failures.ARCHITECTURE, f"{path} is for linux/{found}, this node is {runs_here}")
    for kind, used, _, _, _, offset, size, *_, extra in descriptors:
        kind_of_files, part = struct.unpack_from("<ii", extra)
        if kind == _FILES and used and part == _PRIMARY:
            if kind_of_files != _SQUASHFS:
                what = (
                    "is encrypted"
                    if kind_of_files == _ENCRYPTED
                    else f"has a file system of the kind {kind_of_files}"
                )
                raise ImageProblem(failures.REFUSED, f"{path} {what}, which only Apptainer can read")
            return FileSystem(offset, size)
    raise ImageProblem(failures.DAMAGED, f"{path} has no system in it")


def digest_of(path: str, count: Callable[[int], None]) -> str:
    """The digest of the file; `count` gets the number of bytes read each time. Raises OSError."""
    summary = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            summary.update(piece)
            count(len(piece))
    return f"sha256:{summary.hexdigest()}"


def unpack(path: str, files: FileSystem, directory: str) -> None:
    """Unpack the file system into an empty directory. Raises ImageProblem, OSError."""
    program = shutil.which("unsquashfs")
    if program is None:
        hint = "install squashfs-tools on the node, or name the image of a registry that it was made of"
        raise ImageProblem(failures.REFUSED, f"{path} is an image of Apptainer", hint)
    room = Room(directory)
    options = ["-f", "-n", "-no-xattrs", "-o", str(files.offset_bytes), "-d", directory]
    process = subprocess.Popen(
        [program, *options, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        errors = _attend(process, room)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
    if process.returncode not in (0, _SOME_ATTRIBUTES_FAILED):
        room.check()
        reason = errors.decode("utf-8", "replace").strip()[-_MOST_TEXT:]
        raise ImageProblem(failures.DAMAGED, f"{path} cannot be unpacked: {reason}")
    _tame(directory)


def _attend(process: subprocess.Popen[bytes], room: Room) -> bytes:
    """Wait for the end of a process while disk space remains; returns its error output."""
    while True:
        try:
            return process.communicate(timeout=_LOOK_S)[1]
        except subprocess.TimeoutExpired:
            room.check()


def _tame(directory: str) -> None:
    """Remove entries that no image may have: devices, pipes, and set-user-ID rights."""
    own = os.geteuid() != 0
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                os.chmod(path, (mode & 0o1777) | (0o700 if own else 0))
            elif stat.S_ISREG(mode):
                os.chmod(path, (mode & 0o777) | (0o600 if own else 0))
            elif not stat.S_ISLNK(mode):
                os.unlink(path)


def variables(directory: str) -> Mapping[str, str]:
    """The variables that an unpacked image sets to plain values; its scripts are not executed."""
    found: dict[str, str] = {}
    for entry in inside.list_inside(directory, _VARIABLES, limit=_MOST_SCRIPTS) or ():
        script = inside.read_inside(directory, f"{_VARIABLES}/{entry[0]}", offset=0, limit=_MOST_SCRIPT_BYTES)
        for line in (script or b"").decode("utf-8", "replace").splitlines():
            match = _EXPORT.fullmatch(line.strip())
            found.update([(match[1], match[2])] if match else ())
    return {name: value for name, value in found.items() if not name.startswith("TARMAC_")}
