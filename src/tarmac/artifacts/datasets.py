"""Fetches a dataset once, from the web or through fsspec, into its own directory.

For `DatasetService`.
"""

import os
import re
import shutil
import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener

from tarmac.artifacts.remote import without_credentials
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.notification import check_address
from tarmac.node.files.secrecy import hidden

PIECE_BYTES = 4 * 1024 * 1024

REMOTE = frozenset(
    {"http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "webhdfs", "hf"}
    | {"ftp", "sftp", "oss", "oci", "github"}
)
"""The URL schemes of datasets. Without `local`, and without chains (`simplecache::...`): these would bypass
the checks of paths and read the server's own files.
"""

_WITH_MACHINE = frozenset({"ftp", "sftp", "hdfs", "webhdfs"})
"""The schemes whose URL names the machine to connect to."""

Progress = Callable[[int, int | None], None]
"""Called with the number of received bytes and the total (None: unknown)."""


def is_url(source: str) -> bool:
    """Whether a source is a URL, not a path of this machine."""
    return "://" in source and not source.lower().startswith("file:")


def local_path(source: str) -> Path:
    """The path of a source on this machine."""
    return Path(unquote(urlsplit(source).path) if source.startswith("file://") else source)


def shown(text: str, source: str) -> str:
    """A text about a dataset with `***` for secrets in the URL of its source, and in our variables."""
    secrets = _secrets_in(source) if is_url(source) else []
    return without_credentials(hidden(text, secrets), secrets)


def _secrets_in(url: str) -> list[str]:
    """Possible secrets in a URL, the longest first; a password may contain unencoded characters."""
    place, *query = re.split("[?#]", url.partition("://")[2], maxsplit=1)
    login = place.rpartition("@")[0]
    if ":" not in login:
        login = place.partition("/")[0].rpartition("@")[0]
    password = login.partition(":")[2] or login
    return [each for each in (login, *query, password, unquote(password)) if each]


def check_url(source: str) -> None:
    """Raise InvalidInput for a URL of an unsupported kind."""
    scheme = source.partition("://")[0].lower()
    try:
        _ = urlsplit(source).port
    except ValueError:
        raise InvalidInput("the URL of the dataset has no valid host") from None
    if "::" in source or scheme not in REMOTE:
        known = ", ".join(sorted(REMOTE))
        raise InvalidInput(
            f"{shown(source, source)} cannot be fetched: {scheme}:// is not among {known}",
            hint="a directory or file of the server's machine is given by its path",
        )


def fetch(url: str, target: Path, progress: Progress, *, private_addresses: bool = True) -> None:
    """Fetch all files below a URL (or the single file at it) into `target`, completely or not at all.

    Raises InvalidInput for a URL that nothing installed here can reach, that has no content, or that leads to
    this machine if `private_addresses` is false; Unavailable after an interruption.
    """
    if target.exists():
        return
    fetch_into = _fetcher(url, progress, private_addresses=private_addresses)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    try:
        fetch_into(partial)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)  # the next try begins anew, and the disk may be full
        if isinstance(error, InvalidInput | Unavailable | MemoryError):
            raise
        raise Unavailable(f"fetching {url} broke off: {str(error) or type(error).__name__}") from error
    os.sync()
    partial.replace(target)


def _fetcher(url: str, progress: Progress, *, private_addresses: bool) -> Callable[[Path], None]:
    """A function that fetches the content of a URL into a directory; raises InvalidInput for an unsupported
    URL.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() in _SCHEMES:
        return lambda directory: _fetch_file(url, directory, progress, private_addresses=private_addresses)
    if not private_addresses and parts.scheme.lower() in _WITH_MACHINE:
        for *_, address in socket.getaddrinfo(parts.hostname or "localhost", None):
            check_address(str(address[0]), parts.hostname or "localhost")
    import fsspec  # noqa: PLC0415 - takes long to load, and few servers have datasets from elsewhere

    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"{url} cannot be reached from here: {error}") from None
    return lambda directory: _fetch_all(files, root, directory, progress)


def _fetch_all(files: Any, root: str, partial: Path, progress: Progress) -> None:
    found = _found(files, root)
    if not found:
        raise InvalidInput(f"there is nothing at {root}")
    sizes = [size for _, _, size in found]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    done = 0
    for remote, name, _ in found:
        path = partial / _inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.open(remote, "rb") as reading:
            done = _copy(reading, path, progress, done=done, total=total)


def _found(files: Any, root: str) -> list[tuple[str, str, int | None]]:
    """Every file: its name at the source, its name in the target, its size."""
    if files.isdir(root):
        below = files.find(root, detail=True)
        base = root.rstrip("/") + "/"
        return [(name, name.removeprefix(base), facts.get("size")) for name, facts in sorted(below.items())]
    facts = files.info(root)
    return [(root, PurePosixPath(urlsplit(root).path).name or "data", facts.get("size"))]


def _inside(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise InvalidInput(f"{name!r} would lie outside the dataset")
    return name


_SCHEMES = frozenset({"http", "https"})
_WAIT_S = 60.0
"""The maximum time of silence from the server."""

_ABSENT = range(400, 500)


def _fetch_file(url: str, directory: Path, progress: Progress, *, private_addresses: bool) -> None:
    """Fetch the file at a URL to `directory`, under its own name.

    Raises InvalidInput if it does not exist or its address is forbidden, Unavailable if the server cannot be
    reached or the transfer is interrupted.
    """
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if urlsplit(url).path.endswith("/") or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InvalidInput(
            f"{url} names no file, and a web server does not say what lies below it",
            hint="the address of one file (such as an archive), or a store that lists: s3://bucket/path",
        )
    try:
        opener = build_opener(*(() if private_addresses else (_Public, _PublicTls)))
        with opener.open(Request(url, headers={"User-Agent": "tarmac"}), timeout=_WAIT_S) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            done = _copy(answer, directory / name, progress, total=total)
        if total is not None and done != total:
            raise Unavailable(f"the server broke off after {done:,} of {total:,} bytes")
    except HTTPError as error:
        if error.code in _ABSENT:
            raise InvalidInput(f"{url}: the server answers {error.code} {error.reason}") from None
        raise Unavailable(f"{url}: the server answers {error.code} {error.reason}") from None
    except URLError as error:
        raise Unavailable(f"{url} cannot be reached: {error.reason}") from error
    except HTTPException as error:
        raise Unavailable(f"{url} broke off: {type(error).__name__}") from error


class _PublicConnection(HTTPConnection):
    """A connection that leads neither to this machine nor to its link-local network."""

    def connect(self) -> None:
        super().connect()
        check_address(self.sock.getpeername()[0], self.host)


class _PublicTlsConnection(_PublicConnection, HTTPSConnection):
    """A TLS connection that leads neither to this machine nor to its link-local network."""


class _Public(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PublicConnection, req)


class _PublicTls(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PublicTlsConnection, req)


def _copy(reading: Any, path: Path, progress: Progress, *, total: int | None, done: int = 0) -> int:
    """Copy a stream into a new file; returns the number of received bytes, `done` earlier ones included."""
    with path.open("xb") as writing:
        while piece := reading.read(PIECE_BYTES):
            writing.write(piece)
            done += len(piece)
            progress(done, total)
    return done
