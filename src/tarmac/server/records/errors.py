"""Converts errors into the form of `tarmac.api`: the answer to a request, or a part of one."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac import api
from tarmac.model.errors import InvalidInput, NeverFits, Problem, TarmacError
from tarmac.server.records.copying import copy_fields


def error_form(error: TarmacError) -> api.ErrorForm:
    """The common form of an error."""
    problems: Sequence[Problem] = ()
    if isinstance(error, InvalidInput):
        problems = error.problems
    elif isinstance(error, NeverFits):
        problems = [Problem(message=reason) for reason in error.reasons]
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
        "problems": [copy_fields(api.Problem, problem) for problem in problems],
    }
