"""One call of the API: the request, its errors, and a notice if the server has another version.

`resource_calls`, `client` and their siblings consist of such calls.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

import tarmac
from tarmac.api.operation import Body, BodyOf, Operation, Query, QueryOf
from tarmac.client.http1 import Response
from tarmac.client.transport import Transport
from tarmac.model.codec import ready
from tarmac.model.errors import NotFound, Unavailable

Record = TypeVar("Record")

VERSION_HEADER = "tarmac-version"
NOTICE_HEADER = "tarmac-notice"
ANNOUNCEMENT_HEADER = "tarmac-announcement"


def segment(what: str, name: str) -> str:
    """A name as one segment of a path; raises NotFound for a text that cannot be a name, such as a path."""
    if not name or "/" in name:
        raise NotFound(f"there is no {what} {name!r}")
    return quoted(name)


class Calls:
    """Calls over one transport. `on_notice` gets sentences for the user; by default they are warnings."""

    def __init__(self, transport: Transport, *, on_notice: Callable[[str], None] | None = None) -> None:
        self._transport = transport
        self._on_notice = on_notice or _warn
        self._version_seen: str | None = None
        self._announced: str | None = None
        transport.on_answer = self._note_announcement

    def _call(
        self,
        operation: Operation[Record, QueryOf, BodyOf],
        reference: str = "",
        *,
        query: QueryOf | None = None,
        body: BodyOf | None = None,
    ) -> Record:
        """The answer of an operation, a record or bytes; `reference` is the variable part of its path."""
        path = path_of(operation, reference, query)
        answer = self._transport.request(operation.method, path, body=encoded(body))
        version = answer.headers.get(VERSION_HEADER)
        if version not in (tarmac.__version__, self._version_seen):
            self._on_notice(_other_version(version))
            self._version_seen = version
        if notice := answer.headers.get(NOTICE_HEADER):
            from urllib.parse import unquote

            self._on_notice(unquote(notice))
        return (
            cast(Record, answer.body) if operation.answer is bytes else decoded(operation.answer, answer.body)
        )

    def _note_announcement(self, answer: Response) -> None:
        """Show the announcement of the administrator once, also beside an error."""
        announced = answer.headers.get(ANNOUNCEMENT_HEADER)
        if announced and announced != self._announced:
            from urllib.parse import unquote

            self._announced = announced
            self._on_notice(f"announcement: {unquote(announced)}")


def decoded(kind: type[Record], content: str | bytes) -> Record:
    """The record that an answer (JSON) describes; unknown fields of a newer server are ignored.

    Raises Unavailable for the answer of another API.
    """
    try:
        return msgspec.json.decode(content, type=ready(kind))
    except msgspec.DecodeError as error:
        raise Unavailable(f"the server sent an answer that this version cannot read: {error}") from None


def encoded(body: Body | None) -> bytes | None:
    """The JSON of a body; names of files that are not UTF-8 stay as they are."""
    if body is None:
        return None
    import json

    return json.dumps(msgspec.to_builtins(body)).encode()


def path_of(operation: Operation[Any, Any, Any], reference: str = "", query: Query | None = None) -> str:
    """The path of a request, with its query."""
    before, _, rest = operation.path.partition("{")
    noun, _, after = rest.partition("}")
    path = f"{before}{segment(noun, reference)}{after}" if noun else before
    values = {} if query is None else query_of(query)
    return f"{path}?{query_text(values)}" if values else path


def query_of(query: Query) -> dict[str, Any]:
    """The parameters of a query, without those that have their defaults."""
    values: dict[str, Any] = msgspec.to_builtins(query)
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}


def query_text(values: Mapping[str, Any]) -> str:
    """The parameters as the query of a URL; a list is a parameter for each of its values."""
    lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    return "&".join(f"{name}={quoted(str(value))}" for name, values in lists.items() for value in values)


def quoted(text: str) -> str:
    """The text as a part of a URL."""
    if _PLAIN.issuperset(text):
        return text
    from urllib.parse import quote  # the import takes as long as a request

    return quote(text, safe="")


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def _other_version(version: str | None) -> str:
    return (
        f"the server that answers is tarmac {version or '(unknown)'}, this is {tarmac.__version__}: "
        "`tarmac server stop` ends it without touching its runs, and the next command starts the new one"
    )


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=5)
