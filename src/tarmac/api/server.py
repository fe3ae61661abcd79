"""The server about itself, and errors. Made in `server.routes` and `server.http.answers`."""

from collections.abc import Sequence

from msgspec import Struct

from tarmac.model.errors import InvalidInput, NeverFits, Problem, TarmacError
from tarmac.model.people.announcement import Announcement


class Version(Struct, frozen=True, kw_only=True):
    """The server that answers; `now` is its clock (older servers do not send it).

    `announcement` is the current one of the administrator.
    """

    version: str
    pid: int
    home: str
    started_at: float
    now: float | None = None
    announcement: Announcement | None = None


class Health(Struct, frozen=True, kw_only=True):
    """Whether a server works, and why it does not."""

    healthy: bool
    reasons: Sequence[str]


class CheckReport(Struct, frozen=True, kw_only=True):
    """All problems of a run file, and the warnings of its reader."""

    problems: Sequence[Problem]
    warnings: Sequence[str]


class ErrorForm(Struct, frozen=True, kw_only=True):
    """An error; `exit_code` is the exit code for a command line."""

    code: str
    message: str
    hint: str | None = None
    exit_code: int = 1
    problems: Sequence[Problem] = ()


class Error(Struct, frozen=True, kw_only=True):
    """The one form of an error, for every status."""

    error: ErrorForm


def error_form(error: TarmacError) -> ErrorForm:
    """The common form of an error."""
    problems: Sequence[Problem] = ()
    if isinstance(error, InvalidInput):
        problems = error.problems
    elif isinstance(error, NeverFits):
        problems = [Problem(message=reason) for reason in error.reasons]
    return ErrorForm(
        code=error.code, message=error.message, hint=error.hint, exit_code=error.exit_code, problems=problems
    )
