"""One row of the table of operations: the request and the answer of one route of the API.

The modules `*_operations` declare each operation once. The server binds a handler to it, the client calls it,
and OpenAPI describes it.
"""

from enum import StrEnum
from typing import Annotated, Generic

from msgspec import Meta, Struct, field
from typing_extensions import TypeVar

from tarmac.model.actor import Action

BASE = "/api/v1"

LARGEST = 10**18
"""Maximum number in a request: stores and file offsets cannot hold larger ones."""

Whole = Annotated[int, Meta(ge=0, le=LARGEST)]
Count = Annotated[int, Meta(ge=1, le=LARGEST)]
Lines = Annotated[int, Meta(ge=1, le=10_000)]
"""The most lines of a page of a list."""

JSON = "application/json"
BYTES = "application/octet-stream"


class Query(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The query of a request, by default an empty one. The server ignores unknown names."""


class Body(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The body of a request, by default an empty one. The server refuses unknown names."""


class RunScope(StrEnum):
    """The runs in a list: the actor's own, or those of all users of the server."""

    MINE = "mine"
    ALL = "all"


State = TypeVar("State")


class ListQuery(Query, Generic[State], frozen=True, kw_only=True):
    """A page of a list: things in one of these states; `scope=mine` selects the caller's own."""

    state: list[State] = field(default_factory=list)
    user: str | None = None
    scope: RunScope = RunScope.ALL
    project: str | None = None


Answer = TypeVar("Answer")
QueryOf = TypeVar("QueryOf", bound=Query, default=Query)
BodyOf = TypeVar("BodyOf", bound=Body, default=Body)


class Operation(Struct, Generic[Answer, QueryOf, BodyOf], frozen=True):
    """A route of the API. Its path has at most one name in braces, which stands for a reference.

    `action` decides who may call it (`control.permissions`).
    `answer` is the record (or list of records) in the JSON of an answer with `status`, or `bytes` for an
    answer of the type `media`. `stream` is the type of a request that the server reads piece by piece.
    """

    method: str
    path: str
    action: Action
    answer: type[Answer]
    query: type[QueryOf] | None = None
    body: type[BodyOf] | None = None
    status: int = 200
    media: str = JSON
    stream: str | None = None
    base: str = BASE
