"""One call of the API: the request, its errors, and a notice if the server has another version.

`cluster_calls`, `client` and their siblings consist of such calls.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

import tarmac
from tarmac.client.transport import Answer, Transport
from tarmac.model.errors import NotFound, Unavailable

Record = TypeVar("Record")


def segment(what: str, name: str) -> str:
    """A name as one segment of a path; raises NotFound for a text that cannot be a name, such as a path."""
    if not name or "/" in name:
        raise NotFound(f"there is no {what} {name!r}")
    return quote(name, safe="")


class Calls:
    """Calls over one transport. `on_notice` gets sentences for the user; by default they are warnings."""

    def __init__(self, transport: Transport, *, on_notice: Callable[[str], None] | None = None) -> None:
        self._transport = transport
        self._on_notice = on_notice or _warn
        self._version_seen: str | None = None

    def _get(self, path: str, /, **query: object) -> Any:
        """The answer to a GET request; None in `query` is left out, a list becomes repeated parameters."""
        return _plain(self._content(path, query))

    def _get_as(self, kind: type[Record], path: str, /, **query: object) -> Record:
        """Like `_get`, decoded into a record of this class (or a list of such records)."""
        return decoded(kind, self._content(path, query))

    def _send_as(self, kind: type[Record], method: str, path: str, body: Any = None) -> Record:
        """Like `_send`, decoded as in `_get_as`."""
        return decoded(kind, self._sent(method, path, body))

    def _bytes(self, path: str, /, **query: object) -> bytes:
        """Like `_get`, for an answer that is content and not JSON."""
        chosen = urlencode({key: value for key, value in query.items() if value is not None})
        return self._transport.request("GET", f"{path}?{chosen}").body

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        return _plain(self._sent(method, path, body))

    def _content(self, path: str, query: Mapping[str, object]) -> bytes:
        chosen = urlencode({key: value for key, value in query.items() if value is not None}, doseq=True)
        return self._answer(self._transport.request("GET", f"{path}?{chosen}" if chosen else path))

    def _sent(self, method: str, path: str, body: Any) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        return self._answer(self._transport.request(method, path, body=content))

    def _answer(self, answer: Answer) -> bytes:
        if answer.version not in (tarmac.__version__, self._version_seen):
            self._on_notice(_other_version(answer.version))
            self._version_seen = answer.version
        if answer.notice:
            self._on_notice(answer.notice)
        return answer.body


def decoded(kind: type[Record], content: str | bytes) -> Record:
    """The record that an answer (JSON) describes; unknown fields of a newer server are ignored.

    Raises Unavailable for the answer of another API.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the server sent an answer that this version cannot read: {error}") from None


def _plain(content: bytes) -> Any:
    return msgspec.json.decode(content) if content else None


def _other_version(version: str | None) -> str:
    return (
        f"the server that answers is tarmac {version or '(unknown)'}, this is {tarmac.__version__}: "
        "`tarmac server stop` ends it without touching its runs, and the next command starts the new one"
    )


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=5)
