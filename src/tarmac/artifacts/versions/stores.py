"""Opens the artifact store at a URL: a directory, or a remote file system."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tarmac.artifacts.remote import RemoteBlobs
from tarmac.artifacts.versions.blobs import Blobs, DirectoryBlobs
from tarmac.model.errors import InvalidInput


def open_blobs(url: str) -> Blobs:
    """The store at a URL, or in a directory named by its path. Raises InvalidInput for an invalid one."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return RemoteBlobs(url)
    path = Path(unquote(parts.path) if parts.scheme else url)
    if not path.is_absolute():
        raise InvalidInput(f"the artifact store {url!r} is not an absolute path", hint="/srv/artifacts")
    return DirectoryBlobs(path)
