"""Converts errors into the form of docs/using/api.md. It catches all of them; none ends as a traceback."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tarmac import api
from tarmac.model.errors import InvalidInput, TarmacError
from tarmac.model.home import Home
from tarmac.server.http.answers import JsonAnswer


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

    return {
        TarmacError: expected,
        RecursionError: too_deep,
        HTTPException: unrouted,
        Exception: unexpected,
    }


def response(error: TarmacError) -> JsonAnswer:
    """The answer for an error."""
    return JsonAnswer(api.Error(error=api.error_form(error)), status_code=error.http_status)
