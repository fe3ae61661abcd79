"""Binds handlers to operations: a request is decoded for its handler, and the result encoded.

Used by `routes`. The records of an operation are the types of its handler's request and result.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from types import MethodType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarmac.api.operation import LARGEST, Answer, Body, BodyOf, Operation, Query, QueryOf
from tarmac.control.permissions import check
from tarmac.model.actor import Actor
from tarmac.model.codec import ready
from tarmac.model.errors import InvalidInput
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CALLER, Caller

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Call(Generic[QueryOf, BodyOf]):
    """One request. `reference` is the variable part of its path, "" if there is none."""

    request: Request
    reference: str
    query: QueryOf
    body: BodyOf

    @property
    def caller(self) -> Caller:
        """The sender of an admitted request; a request that is open to all has none."""
        found: Caller = self.request.scope[CALLER]
        return found

    @property
    def actor(self) -> Actor:
        """The user who sent the request."""
        return self.caller.actor


@dataclass(frozen=True, slots=True)
class Offer:
    """An operation that the server offers, or another answer of one, and its description."""

    operation: Operation[Any, Any, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Served(Offer):
    """An operation with its handler, a method of a class of `routes`."""

    method: Callable[[Any, Call[Any, Any]], Any]

    def route(self, handlers: object) -> Route:
        """The route that calls the handler: a plain one in a thread, an async one in the event loop."""
        operation, handler = self.operation, MethodType(self.method, handlers)

        def in_thread(call: Call[Any, Any]) -> Response:
            return _response(operation, handler(call))

        async def endpoint(request: Request) -> Response:
            if CALLER in request.scope:  # without one, the authentication has admitted an open operation
                check(request.scope[CALLER].actor, operation.action)
            call: Call[Any, Any] = Call(
                request=request,
                reference=next(iter(request.path_params.values()), ""),
                query=decoded_query(operation.query or Query, request),
                body=await _body(operation.body, request),
            )
            if inspect.iscoroutinefunction(handler):
                return _response(operation, await handler(call))
            return await run_in_threadpool(in_thread, call)

        route = Route(f"{operation.base}{operation.path}", endpoint, methods=[operation.method])
        route.methods = {operation.method}  # without the HEAD that Starlette adds
        return route


def serve(
    operation: Operation[Answer, QueryOf, BodyOf],
) -> Callable[[Callable[[Any, Call[QueryOf, BodyOf]], Answer | Response | Awaitable[Response]]], Served]:
    """A decorator of the handler of an operation, whose docstring describes the operation."""
    return lambda method: Served(operation, inspect.cleandoc(method.__doc__ or ""), method)


class Routes:
    """The operations that the server offers, and their routes."""

    def __init__(self) -> None:
        self.offers: list[Offer] = []
        self.routes: list[Route] = []

    def add(self, handlers: object) -> None:
        """Add the operations of these handlers, in the order of their definitions."""
        for offer in vars(type(handlers)).values():
            if isinstance(offer, Offer):
                self.offers.append(offer)
            if isinstance(offer, Served):
                self.routes.append(offer.route(handlers))


def _response(operation: Operation[Any, Any, Any], found: Any) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, bytes):
        return Response(found, status_code=operation.status, media_type=operation.media)
    return JsonAnswer(found, status_code=operation.status)


@cache
def _list_names(kind: type[Query]) -> frozenset[str]:
    """The parameters of a query that may be repeated."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field.type))


def _is_list(kind: Any) -> bool:
    return _is_list(get_args(kind)[0]) if get_origin(kind) is Annotated else get_origin(kind) in (list, tuple)


def decoded_query(kind: type[QueryOf], request: Request) -> QueryOf:
    """The query of a request as a record; raises InvalidInput."""
    given, lists = request.query_params, _list_names(kind)
    values = {name: given.getlist(name) if name in lists else value for name, value in given.items()}
    return checked("query", lambda: msgspec.convert(values, ready(kind), strict=False))


async def _body(kind: type[Body] | None, request: Request) -> Body:
    if kind is None:
        return Body()
    content = await request.body()
    return checked("body", lambda: msgspec.json.decode(content, type=ready(kind)))


def checked(where: str, decode: Callable[[], Record]) -> Record:
    """A decoded record; raises InvalidInput with the place of the first value that does not fit."""
    try:
        return decode()
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        place = f"{where}{path}".strip(".`")
        raise InvalidInput(f"{place}: {message}" if place else message) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from None


def whole(text: str) -> int | None:
    """The whole number in a path or a header; None if there is none, or if it exceeds `LARGEST`."""
    return int(text) if text.isdecimal() and len(text) < len(str(LARGEST)) else None
