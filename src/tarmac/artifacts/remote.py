"""A store behind a URL, through fsspec: s3://bucket/path and the other installed file systems.

`open_blobs` opens one, or the store in a directory. Credentials are those of the environment
(AWS_ACCESS_KEY_ID and so on, or ~/.aws), never in the URL. No module but this one and `datasets` uses fsspec.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tarmac.artifacts.versions.blobs import Blobs, DirectoryBlobs, Piece
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files.masking import Mask
from tarmac.node.files.secrecy import names_secret

_WHOLE_IN_ONE_STEP = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "memory"})
"""Schemes with atomic puts. On other stores a piece is put under another name and moved."""


class RemoteBlobs:
    """A store that fsspec can reach."""

    def __init__(self, url: str) -> None:
        """Raises InvalidInput for a URL that nothing installed here can reach."""
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise InvalidInput(
                "the URL of the artifact store holds a user or password",
                hint="credentials belong into the environment of the server, such as AWS_ACCESS_KEY_ID",
            )
        try:
            import fsspec  # noqa: PLC0415 - takes long to load

            self._files, root = fsspec.core.url_to_fs(url, **_options(parts.scheme))
        except (ImportError, ValueError) as error:
            hint = f"install s3fs for {sys.executable}" if parts.scheme.startswith("s3") else None
            message = f"the artifact store {url!r} cannot be reached from here: {error}"
            raise InvalidInput(message, hint=hint) from None
        self._root = root.rstrip("/")
        self._at_once = parts.scheme in _WHOLE_IN_ONE_STEP

    def put(self, name: str, data: bytes) -> None:
        with _store_errors(f"writing {name}"):
            if self._at_once:
                self._files.pipe_file(self._path(name), data)
                return
            path, draft = self._path(name), f"{self._path(name)}.draft"
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(draft, data)
            self._files.mv(draft, path)

    def create(self, name: str, data: bytes) -> bool:
        with _store_errors(f"writing {name}"):
            if self._at_once and self._files.protocol not in ("memory", ("memory",)):
                try:
                    self._files.pipe_file(self._path(name), data, mode="create")
                except FileExistsError:
                    return False
                return True
        if self.has(name):
            return False
        self.put(name, data)
        return True

    def get(self, name: str) -> bytes | None:
        with _store_errors(f"reading {name}"):
            try:
                data: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return data

    def has(self, name: str) -> bool:
        with _store_errors(f"looking for {name}"):
            self._files.invalidate_cache()
            return bool(self._files.isfile(self._path(name)))

    def remove(self, name: str) -> None:
        with _store_errors(f"removing {name}"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def pieces(self, prefix: str) -> Iterator[Piece]:
        with _store_errors(f"listing {prefix}"):
            self._files.invalidate_cache()
            try:
                found: dict[str, dict[str, Any]] = self._files.find(self._path(prefix), detail=True)
            except FileNotFoundError:
                return
        for path, facts in found.items():
            name = path[len(self._root) + 1 :]
            if not name.endswith(".draft"):
                yield Piece(name, int(facts.get("size") or 0), _changed_at(facts))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _options(scheme: str) -> dict[str, Any]:
    """Options with few retries: the sidecar itself tries again, and reports it meanwhile."""
    if scheme not in ("s3", "s3a"):
        return {}
    config = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2, "mode": "standard"}}
    return {"config_kwargs": config, "use_listings_cache": False}


def _changed_at(facts: dict[str, Any]) -> float:
    for key in ("LastModified", "last_modified", "mtime", "created"):
        at = facts.get(key)
        if isinstance(at, datetime):
            return at.timestamp()
        if isinstance(at, (int, float)):
            return float(at)
    return 0.0


def without_credentials(text: str, also: Iterable[str] = ()) -> str:
    """A library's text without secrets from our variables (and `also`): an answer may repeat them."""
    return Mask([*also, *(value for name, value in os.environ.items() if names_secret(name))]).text(text)


@contextlib.contextmanager
def _store_errors(action: str) -> Iterator[None]:
    """Convert all errors of an installed file system to Unavailable."""
    try:
        yield
    except FileExistsError:
        raise
    except Exception as error:
        why = without_credentials(str(error) or type(error).__name__)
        raise Unavailable(f"the artifact store failed {action}: {why}") from error


def open_blobs(url: str) -> Blobs:
    """The store at a URL, or in a directory named by its path. Raises InvalidInput for an invalid one."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return RemoteBlobs(url)
    path = Path(unquote(parts.path) if parts.scheme else url)
    if not path.is_absolute():
        raise InvalidInput(f"the artifact store {url!r} is not an absolute path", hint="/srv/artifacts")
    return DirectoryBlobs(path)
