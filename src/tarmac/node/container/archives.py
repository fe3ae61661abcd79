"""Images that lie on the node: archives of `docker save` and `podman save`, OCI archives and directories.

Called by `images`. They are read as a registry is: a manifest, and the bytes of a digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import IO, Any, Optional

from tarmac.node.container import failures, manifests
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.registry import MOST_MANIFEST_BYTES
from tarmac.node.container.unpacking import BoundedEntry

_INDEX = "index.json"
_DOCKER = "manifest.json"
_CHUNK_BYTES = 1024 * 1024
_MOST_PARTS = 10_000


class Archive:
    """An image in a file, or in a directory as OCI lays it out."""

    def __init__(self, path: str) -> None:
        """Raises ImageProblem for what is neither."""
        self._path = path
        self._tar: Optional[tarfile.TarFile] = None
        self._by_digest: dict[str, str] = {}
        self._manifest = b""
        self._docker: dict[str, Any] = {}
        try:
            if not os.path.isdir(path):
                self._tar = tarfile.open(path, tarinfo=BoundedEntry)  # noqa: SIM115 - as long as we live
                _list(self._tar)
            self._read()
        except FileNotFoundError:
            self.close()
            raise ImageProblem(failures.UNKNOWN_IMAGE, f"there is no image at {path}") from None
        except (tarfile.TarError, ValueError, KeyError, IndexError, TypeError) as error:
            self.close()
            hint = "save it with `docker save` or `podman save`"
            raise ImageProblem(failures.DAMAGED, f"{path} is no archive of an image: {error}", hint) from None
        except OSError as error:
            self.close()
            message = f"the image {path} cannot be read: {error.strerror}"
            raise ImageProblem(failures.UNKNOWN_IMAGE, message) from None

    @property
    def address(self) -> str:
        """Its path."""
        return self._path

    def close(self) -> None:
        """Let go of the file."""
        if self._tar is not None:
            self._tar.close()

    def manifest(self, version: str) -> bytes:
        """The manifest: that of the image, or of a digest it names."""
        if version.startswith("sha256:"):
            return self.open(version).read(MOST_MANIFEST_BYTES)
        if self._docker and not self._manifest:
            self._manifest = json.dumps(self._of_docker(self._docker)).encode()
        return self._manifest

    def config(self, machine: str, name: str) -> dict[str, Any]:
        """What the image says of itself, without its layers. Raises ImageProblem, ValueError."""
        if self._docker:
            return _object(self._open(self._docker["Config"]).read(MOST_MANIFEST_BYTES))
        found = _object(self._manifest)
        chosen = manifests.choose(found, machine, name)
        found = found if chosen is None else _object(self.manifest(chosen))
        piece = manifests.read_manifest(found).config
        return _object(self.open(piece.digest).read(MOST_MANIFEST_BYTES))

    def open(self, digest: str, offset_bytes: int = 0) -> IO[bytes]:
        """The bytes of a digest, from an offset on. Raises ImageProblem."""
        name = self._by_digest.get(digest, "blobs/" + digest.replace(":", "/"))
        try:
            found = self._open(name)
        except (KeyError, OSError):
            raise ImageProblem(failures.DAMAGED, f"{self._path} lacks {digest}") from None
        found.seek(offset_bytes)
        return found

    def _read(self) -> None:
        try:
            index = json.loads(self._open(_INDEX).read(MOST_MANIFEST_BYTES))
        except (KeyError, FileNotFoundError):
            self._docker = json.loads(self._open(_DOCKER).read(MOST_MANIFEST_BYTES))[0]
            self._docker["Config"], self._docker["Layers"]
            return
        if len(index["manifests"]) == 1:
            self._manifest = self.manifest(index["manifests"][0]["digest"])
        else:
            self._manifest = json.dumps(index).encode()

    def _of_docker(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The manifest of an archive that names files instead of digests."""
        return {
            "schemaVersion": 2,
            "config": self._piece(entry["Config"]),
            "layers": [self._piece(name) for name in entry["Layers"]],
        }

    def _piece(self, name: str) -> dict[str, Any]:
        summary, size_bytes = hashlib.sha256(), 0
        with self._open(name) as file:
            while piece := file.read(_CHUNK_BYTES):
                summary.update(piece)
                size_bytes += len(piece)
        digest = f"sha256:{summary.hexdigest()}"
        self._by_digest[digest] = name
        return {"digest": digest, "size": size_bytes}

    def _open(self, name: str) -> IO[bytes]:
        """A file of the archive. Raises KeyError or FileNotFoundError."""
        if self._tar is None:
            return open(os.path.join(self._path, name), "rb")
        found = self._tar.extractfile(name)
        return found if found is not None else io.BytesIO()


def _object(content: bytes) -> dict[str, Any]:
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("it says nothing of itself")
    return found


def _list(archive: tarfile.TarFile) -> None:
    """Find out what is in an archive, all of which is remembered. Raises TarError where that is too much."""
    parts = 0
    while archive.next() is not None:
        parts += 1
        if parts > _MOST_PARTS:
            raise tarfile.ReadError(f"it has more than {_MOST_PARTS:,} parts")
