"""Converts errors of the API to those of `tarmac.model.errors`. Called by `transport`, `cluster_calls`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tarmac.model.errors import (
    Forbidden,
    InvalidInput,
    IsExperiment,
    NeverFits,
    NotFound,
    Problem,
    Refused,
    StorageFull,
    TarmacError,
    TooLarge,
    Unauthorized,
    Unavailable,
)

_CLASSES: Mapping[str, type[TarmacError]] = {
    kind.code: kind
    for kind in (NotFound, Refused, IsExperiment, TooLarge, Unauthorized, Forbidden, Unavailable, StorageFull)
}


def failure(status: int, body: bytes) -> TarmacError:
    """The error in an answer with this status and body."""
    try:
        error = error_of(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError):
        return TarmacError(
            f"the server answered with status {status} and no explanation",
            hint="is this the address of a tarmac server?",
        )
    error.http_status = status
    return error


def error_of(form: Mapping[str, Any]) -> TarmacError:
    """The error in its JSON form; raises LookupError for an invalid one."""
    code, message, hint = str(form["code"]), str(form["message"]), form.get("hint")
    problems = tuple(_problem(item) for item in form.get("problems") or ())
    if code == InvalidInput.code:
        return InvalidInput(problems or message, hint=hint)
    if code == NeverFits.code:
        return NeverFits(message, hint=hint, reasons=[problem.message for problem in problems])
    error = _CLASSES.get(code, TarmacError)(message, hint=hint)
    error.code = code
    error.exit_code = int(form.get("exit_code", error.exit_code))
    return error


def _problem(item: Mapping[str, Any]) -> Problem:
    return Problem(
        message=str(item["message"]),
        file=item.get("file"),
        line=item.get("line"),
        column=item.get("column"),
        hint=item.get("hint"),
    )
