"""JSON answers, encoded by msgspec: a list of ten thousand runs takes milliseconds.

Errors have the form of docs/using/api.md. All are caught; none ends as a traceback.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tarmac import api
from tarmac.model.errors import InvalidInput, TarmacError, TooManyRequests
from tarmac.model.home import Home


class JsonAnswer(Response):
    """A body of records and plain values; a record has all its fields, an enum its value."""

    media_type = "application/json"

    render = staticmethod(msgspec.json.encode)  # type: ignore[assignment]


def notice(text: str | None) -> dict[str, str] | None:
    """The header with a sentence that clients show beside an answer; None if there is no text."""
    return {"tarmac-notice": quote(text)} if text else None


def error_handlers(home: Home) -> Mapping[Any, Callable[[Request, Exception], JsonAnswer]]:
    """The answers to every kind of error. An unexpected one refers to the log of `home`."""

    def expected(_request: Request, error: Exception) -> JsonAnswer:
        assert isinstance(error, TarmacError)
        return response(error)

    def too_deep(_request: Request, _error: Exception) -> JsonAnswer:
        return response(InvalidInput("the request is nested too deeply"))

    def unrouted(_request: Request, error: Exception) -> JsonAnswer:
        assert isinstance(error, HTTPException)
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        form = api.Error(error=api.ErrorForm(code=code, message=str(error.detail)))
        return JsonAnswer(form, status_code=error.status_code, headers=error.headers)

    def unexpected(_request: Request, error: Exception) -> JsonAnswer:
        return response(
            TarmacError(
                f"tarmac itself failed ({type(error).__name__}): the mistake is not in your run",
                hint=f"the details are in {home.log}",
            )
        )

    return {TarmacError: expected, RecursionError: too_deep, HTTPException: unrouted, Exception: unexpected}


def send_after_record(
    send: Send, scope: Scope, receive: Receive, record: Callable[[int], Awaitable[None]]
) -> Send:
    """Sends an answer once `record` has stored its status, or the error that `record` raises in its place."""
    lost = False

    async def send_recorded(message: Message) -> None:
        nonlocal lost
        if message["type"] == "http.response.start":
            try:
                await record(message["status"])
            except TarmacError as error:
                lost = True
                await response(error)(scope, receive, send)
        if not lost:
            await send(message)

    return send_recorded


def response(error: TarmacError) -> JsonAnswer:
    """The answer for an error."""
    wait = {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyRequests) else None
    return JsonAnswer(api.Error(error=api.error_form(error)), status_code=error.http_status, headers=wait)
