"""Fetches one file from a web server with the standard library alone, for plain installs. For `datasets`."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener

from tarmac.model.addresses import check_address
from tarmac.model.errors import InvalidInput, Unavailable

SCHEMES = frozenset({"http", "https"})
WAIT_S = 60.0
"""The maximum time of silence from the server."""

_ABSENT = range(400, 500)


def fetch_file(
    url: str,
    directory: Path,
    progress: Callable[[int, int | None], None],
    *,
    piece_bytes: int,
    private_addresses: bool,
) -> None:
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
        with opener.open(Request(url, headers={"User-Agent": "tarmac"}), timeout=WAIT_S) as answer:
            _copy(answer, directory / name, progress, piece_bytes=piece_bytes)
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


def _copy(answer: Any, path: Path, progress: Callable[[int, int | None], None], *, piece_bytes: int) -> None:
    length = answer.headers.get("Content-Length")
    total = int(length) if length is not None and length.isdigit() else None
    done = 0
    with path.open("xb") as writing:
        while piece := answer.read(piece_bytes):
            writing.write(piece)
            done += len(piece)
            progress(done, total)
    if total is not None and done != total:
        raise Unavailable(f"the server broke off after {done:,} of {total:,} bytes")
