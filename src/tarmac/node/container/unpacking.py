"""Unpacks a layer of an image from its archive to a directory for an overlay. Called by `images`.

The archive is untrusted: its names and links cannot cause writes outside the directory; device files and
pipes are omitted, and files lose set-user-ID rights. Unpacking leaves space on the disk to others, and memory
is bounded. Removals of entries in lower layers (`.wh.NAME`) are converted to the overlay's form.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zlib
from contextlib import suppress
from typing import IO

from tarmac.node.container.failures import DAMAGED, DISK_FULL, MAKE_ROOM, ImageProblem
from tarmac.node.container.images import OPAQUE_MARK, clear, is_directory
from tarmac.node.container.streams import mebibytes
from tarmac.node.files import untrusted

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MOST_LINKS = 40
_CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(_CHUNK_BYTES)
"""A block of zeros is skipped, not written: a huge file of zeros may be small in its archive."""

_RIGHTS = 0o777
"""The kept bits of a file's mode, without set-user-ID."""

_MOST_HEADER_BYTES = 1024 * 1024
"""The maximum size of the names and attributes of one entry, which are read at once."""

_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

_PART = 20
_MOST_BYTES = 1024**3
_ENTRY_BYTES = 4096
_LOOK_EVERY_BYTES = 1024**2


def unpack(stream: IO[bytes], directory: str) -> None:
    """Unpack an archive into an empty directory. Raises ImageProblem for an invalid archive, OSError."""
    layer = _Layer(directory)
    try:
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=1, tarinfo=BoundedEntry) as archive:
            while (member := archive.next()) is not None:
                layer.place(archive, member)
                archive.members.clear()  # type: ignore[attr-defined] # it would remember them all
                archive.pax_headers = {}
    except (tarfile.TarError, EOFError, ValueError, ArithmeticError, RecursionError, zlib.error) as error:
        raise ImageProblem(DAMAGED, f"a layer is no archive: {error}") from None
    except MemoryError:
        raise ImageProblem(DAMAGED, "the headers of a layer take too much memory") from None
    layer.set_modes()


class BoundedEntry(tarfile.TarInfo):
    """An entry of an archive, of a layer or of code, with headers of limited size."""

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> BoundedEntry:  # type: ignore[override]
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MOST_HEADER_BYTES:
            message = f"the archive has a header of {found.size:,} bytes, larger than any name"
            raise ImageProblem(DAMAGED, message)
        return found


class _Layer:
    """The directory of a layer while it is filled; no other process writes there."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._room = Room(root)
        self._own = os.geteuid() != 0
        self._modes: dict[str, int] = {}

    def place(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Make one entry."""
        self._room.spend()
        path = os.path.normpath(f"/{member.name}").lstrip("/")
        if not path:
            return
        parent, name = self._directory(os.path.dirname(path)), os.path.basename(path)
        place = os.path.join(parent, name)
        if name.startswith(_WHITEOUT):
            _remove_below(parent, name)
            return
        if member.isdir():
            if not is_directory(place):
                self._make_directory(place, 0o700)
            self._modes[place] = (member.mode & 0o1777) | (0o700 if self._own else 0)
        elif member.issym():
            self._clear(place)
            os.symlink(member.linkname, place)
        elif member.islnk():
            self._link(member.linkname, place)
            return
        elif member.isfile():
            self._clear(place)
            self._write(archive, member, place)
        else:
            return  # a device or a pipe
        if not self._own:
            os.chown(place, member.uid, member.gid, follow_symlinks=False)
        with suppress(OSError, OverflowError):
            os.utime(place, (member.mtime, member.mtime), follow_symlinks=False)

    def set_modes(self) -> None:
        """Set the modes of directories at the end, as they may forbid writing."""
        for path in reversed(list(self._modes)):
            os.chmod(path, self._modes[path])

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
        self._room.check_size(member.size)
        source = archive.extractfile(member)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            while source is not None and (piece := source.read(_CHUNK_BYTES)):
                if piece == _ZEROS[: len(piece)]:
                    file.seek(len(piece), os.SEEK_CUR)
                    continue
                self._room.spend(len(piece))
                file.write(piece)
            file.truncate()
            if not self._own:
                os.chown(file.fileno(), member.uid, member.gid)
            os.fchmod(file.fileno(), (member.mode & _RIGHTS) | (0o600 if self._own else 0))

    def _link(self, to: str, place: str) -> None:
        """Make a hard link to a file of the same layer."""
        path = os.path.normpath(f"/{to}").lstrip("/")
        source = os.path.join(self._directory(os.path.dirname(path)), os.path.basename(path))
        if not os.path.lexists(source) or is_directory(source):
            raise ImageProblem(DAMAGED, f"a layer has a link to {to[:200]!r}, which it has not")
        if source != place:
            self._clear(place)
            os.link(source, place, follow_symlinks=False)

    def _directory(self, path: str) -> str:
        """The real path of a directory of the layer, made if it is missing.

        Links are followed as in the container: they never lead out of it.
        """
        here, left, links = self._root, path.split("/")[::-1], 0
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = os.path.dirname(here) if here != self._root else self._root
                continue
            place = os.path.join(here, name)
            if os.path.islink(place):
                links += 1
                if links > _MOST_LINKS:
                    raise ImageProblem(DAMAGED, f"a layer has links in a circle at {path[:200]!r}")
                to = os.readlink(place)
                here = self._root if to.startswith("/") else here
                left.extend(to.split("/")[::-1])
                continue
            if not is_directory(place):
                self._make_directory(place, 0o755)
            here = place
        return here

    def _make_directory(self, place: str, mode: int) -> None:
        """Make a directory, replacing any other entry; entries removed below stay hidden."""
        removed = _is_whiteout(place)
        self._clear(place)
        os.mkdir(place, mode)
        if removed:
            os.setxattr(place, OPAQUE_MARK, b"y")

    def _clear(self, place: str) -> None:
        """Remove an existing entry of the same name."""
        if is_directory(place):
            for path in [path for path in self._modes if path == place or path.startswith(f"{place}/")]:
                del self._modes[path]
        clear(place)


def _remove_below(parent: str, name: str) -> None:
    """Record that an entry of lower layers is removed."""
    hidden = name[len(_WHITEOUT) :]
    place = os.path.join(parent, hidden)
    if name == _OPAQUE:
        os.setxattr(parent, OPAQUE_MARK, b"y")
    elif hidden in ("", ".", ".."):
        return
    elif is_directory(place):  # this layer makes it again
        os.setxattr(place, OPAQUE_MARK, b"y")
    elif not os.path.lexists(place):
        os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))


def _is_whiteout(place: str) -> bool:
    found = untrusted.lstat(place)
    return found is not None and stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


class Room:
    """The space on the disk of `directory`, in which a layer is made."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._unseen_bytes = 0

    def spend(self, size_bytes: int = _ENTRY_BYTES) -> None:
        """Count bytes about to be written, and check the disk at intervals. Raises the errors of `check`."""
        self._unseen_bytes += size_bytes
        if self._unseen_bytes >= _LOOK_EVERY_BYTES:
            self._unseen_bytes = 0
            self.check()

    def check_size(self, size_bytes: int) -> None:
        """Raise ImageProblem for a file that this disk could not hold even if it were empty."""
        found = os.statvfs(self._directory)
        if size_bytes > found.f_blocks * found.f_frsize:
            message = f"the image has a file of {mebibytes(size_bytes)}, more than the disk of "
            raise ImageProblem(DISK_FULL, message + os.path.dirname(self._directory))

    def check(self) -> None:
        """Raise ImageProblem if less than a twentieth of the disk, at most 1 GiB, remains for others."""
        found = os.statvfs(self._directory)
        kept_bytes = min(found.f_blocks * found.f_frsize // _PART, _MOST_BYTES)
        if found.f_bavail * found.f_frsize < kept_bytes + _LOOK_EVERY_BYTES:
            self._refuse(f"{mebibytes(kept_bytes)} of that disk")
        if found.f_files > 0 and found.f_favail < found.f_files // _PART:  # some disks have no such limit
            self._refuse(f"room for {found.f_files // _PART:,} files on that disk")

    def _refuse(self, kept: str) -> None:
        place = os.path.dirname(self._directory)
        message = f"the image does not fit into {place}: unpacked, it would take the last {kept}"
        raise ImageProblem(DISK_FULL, message, MAKE_ROOM)
