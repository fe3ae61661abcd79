"""Images on the node: archives of `docker save` and `podman save`, OCI archives and directories.

Called by `pulling`, and by servers to check an image quickly. The interface is that of a registry: a
manifest, and the bytes of a digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from contextlib import closing
from typing import IO, Any, Optional

from tarmac.node.container import drivers, manifests
from tarmac.node.container.failures import DAMAGED, UNKNOWN_IMAGE, ImageProblem
from tarmac.node.container.reference import is_used_unchanged
from tarmac.node.container.registry import MOST_MANIFEST_BYTES
from tarmac.node.container.unpacking import BoundedEntry
from tarmac.node.files import untrusted

_INDEX = "index.json"
_DOCKER = "manifest.json"
_CHUNK_BYTES = 1024 * 1024
_STRANGE = (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors from reading a file that is no image."""

_MOST_PARTS = 10_000


class Archive:
    """An image in a file, or in a directory with the OCI layout."""

    def __init__(self, path: str) -> None:
        """Raises ImageProblem if the path is neither."""
        self.address = path
        self._tar: Optional[tarfile.TarFile] = None
        self._by_digest: dict[str, str] = {}
        self._manifest = b""
        self._docker: dict[str, Any] = {}
        try:
            if not os.path.isdir(path):
                self._tar = tarfile.open(path, tarinfo=BoundedEntry)  # noqa: SIM115 - as long as we live
                _list(self._tar)
            self._read()
        except (ImageProblem, OSError, *_STRANGE) as error:
            self.close()
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> ImageProblem:
        """The problem of an image that cannot be opened."""
        if isinstance(error, ImageProblem):
            return error
        is_missing = isinstance(error, FileNotFoundError)
        if is_missing and not os.path.exists(self.address):
            return ImageProblem(UNKNOWN_IMAGE, f"there is no image at {self.address}")
        if isinstance(error, OSError) and not is_missing and not isinstance(error, _STRANGE):
            message = f"the image {self.address} cannot be read: {error.strerror}"
            return ImageProblem(UNKNOWN_IMAGE, message)
        return self._damage(error)

    def _damage(self, error: Exception) -> ImageProblem:
        hint = "save it with `docker save` or `podman save`"
        reason = str(error).partition("\n")[0].rstrip(":")
        return ImageProblem(DAMAGED, f"{self.address} is no archive of an image: {reason}", hint)

    def close(self) -> None:
        """Close the file."""
        if self._tar is not None:
            self._tar.close()

    def manifest(self, version: str) -> bytes:
        """The manifest of the image, or of a digest in it. Raises ImageProblem."""
        if version.startswith("sha256:"):
            with self.open(version) as file:
                return file.read(MOST_MANIFEST_BYTES)
        if self._docker and not self._manifest:
            try:
                # An archive that names files instead of digests.
                layers = [self._piece(name) for name in self._docker["Layers"]]
                config = self._piece(self._docker["Config"])
                manifest = {"schemaVersion": 2, "config": config, "layers": layers}
                self._manifest = json.dumps(manifest).encode()
            except _STRANGE as error:
                raise self._damage(error) from None
        return self._manifest

    def config(self, machine: str, name: str) -> dict[str, Any]:
        """The image's configuration, without its layers. Raises ImageProblem, OSError."""
        try:
            return self._config(machine, name)
        except _STRANGE as error:
            raise self._damage(error) from None

    def _config(self, machine: str, name: str) -> dict[str, Any]:
        if self._docker:
            return untrusted.parse_object(self._text(self._docker["Config"]))
        found = untrusted.parse_object(self._manifest)
        chosen = manifests.choose(found, machine, name)
        found = found if chosen is None else untrusted.parse_object(self.manifest(chosen))
        piece = manifests.read_manifest(found).config
        return untrusted.parse_object(self.manifest(piece.digest))

    def open(self, digest: str, offset_bytes: int = 0) -> IO[bytes]:
        """The bytes of a digest, from an offset. Raises ImageProblem."""
        name = self._by_digest.get(digest, "blobs/" + digest.replace(":", "/"))
        try:
            found = self._open(name)
        except (KeyError, OSError):
            raise ImageProblem(DAMAGED, f"{self.address} lacks {digest}") from None
        found.seek(offset_bytes)
        return found

    def _read(self) -> None:
        try:
            index = json.loads(self._text(_INDEX))
        except (KeyError, FileNotFoundError):
            self._docker = json.loads(self._text(_DOCKER))[0]
            self._docker["Config"], self._docker["Layers"]
            return
        if len(index["manifests"]) == 1:
            self._manifest = self.manifest(index["manifests"][0]["digest"])
        else:
            self._manifest = json.dumps(index).encode()

    def _piece(self, name: str) -> dict[str, Any]:
        summary, size_bytes = hashlib.sha256(), 0
        with self._open(name) as file:
            while piece := file.read(_CHUNK_BYTES):
                summary.update(piece)
                size_bytes += len(piece)
        digest = f"sha256:{summary.hexdigest()}"
        self._by_digest[digest] = name
        return {"digest": digest, "size": size_bytes}

    def _text(self, name: str) -> bytes:
        """A small file of the archive; raises the errors of `_open`."""
        with self._open(name) as file:
            return file.read(MOST_MANIFEST_BYTES)

    def _open(self, name: str) -> IO[bytes]:
        """A regular file inside the archive, never a link. Raises KeyError, OSError."""
        if self._tar is None:
            return open(untrusted.open_inside(os.path.realpath(self.address), name), "rb")
        found = self._tar.extractfile(name)
        return found if found is not None else io.BytesIO()


def _list(archive: tarfile.TarFile) -> None:
    """List the archive's entries in memory. Raises TarError if there are too many."""
    parts = 0
    while archive.next() is not None:
        parts += 1
        if parts > _MOST_PARTS:
            raise tarfile.ReadError(f"it has more than {_MOST_PARTS:,} parts")


_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7")


def check_image(path: str, machine: str) -> None:
    """Raise ImageProblem for a file that is missing, no image, or for another architecture or program."""
    if not os.path.exists(path):
        raise ImageProblem(UNKNOWN_IMAGE, f"there is no image at {path}")
    if not os.path.isdir(path) and not os.path.isfile(path):
        raise ImageProblem(DAMAGED, f"{path} is neither a file nor a directory")
    try:
        drivers.setting_for(path, drivers.AUTO, drivers.survey())
        if is_used_unchanged(path):
            return
        is_compressed = os.path.isfile(path) and untrusted.read_part(path, 0, 2).startswith(_COMPRESSED)
        if not is_compressed:  # else a search for an entry would have to read the whole file
            with closing(Archive(path)) as archive:
                config = archive.config(machine, path)
            manifests.read_config(config, machine, path)
    except (OSError, ValueError) as error:
        raise ImageProblem(DAMAGED, f"{path} cannot be read: {error}") from None
