"""Converts errors of the API to those of `tarmac.model.errors`. Called by `transport`, `resource_calls`."""

from collections.abc import Mapping

import msgspec

from tarmac.api.server import Error, ErrorForm
from tarmac.model import errors
from tarmac.model.errors import InvalidInput, NeverFits, TarmacError

_CLASSES: Mapping[str, type[TarmacError]] = {
    kind.code: kind
    for kind in (
        *(errors.NotFound, errors.Refused, errors.IsExperiment, errors.TooLarge),
        *(errors.Unauthorized, errors.Forbidden, errors.Unavailable, errors.StorageFull),
    )
}


def failure(status: int, body: bytes) -> TarmacError:
    """The error in an answer with this status and body."""
    try:
        error = error_of(msgspec.json.decode(body, type=Error).error)
    except (ValueError, msgspec.MsgspecError):
        return TarmacError(
            f"the server answered with status {status} and no explanation",
            hint="is this the address of a tarmac server?",
        )
    error.http_status = status
    return error


def error_of(form: ErrorForm) -> TarmacError:
    """The error in the form that answers have."""
    if form.code == InvalidInput.code:
        return InvalidInput(tuple(form.problems) or form.message, hint=form.hint)
    if form.code == NeverFits.code:
        reasons = [problem.message for problem in form.problems]
        return NeverFits(form.message, hint=form.hint, reasons=reasons)
    error = _CLASSES.get(form.code, TarmacError)(form.message, hint=form.hint)
    error.code = form.code
    error.exit_code = form.exit_code
    return error
