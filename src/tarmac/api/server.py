"""The server about itself, and problems of an input. Made in `server.http.errors`."""

from __future__ import annotations

from typing_extensions import TypedDict


class Version(TypedDict):
    """The server that answers; `now` is its clock."""

    version: str
    pid: int
    home: str
    started_at: float
    now: float


class Health(TypedDict):
    """Whether a server works, and why it does not."""

    healthy: bool
    reasons: list[str]


class Problem(TypedDict):
    """One problem in an input."""

    message: str
    file: str | None
    line: int | None
    column: int | None
    hint: str | None


class CheckReport(TypedDict):
    """All problems of a run file, and the warnings of its reader."""

    problems: list[Problem]
    warnings: list[str]


class ErrorForm(TypedDict):
    """An error; `exit_code` is the exit code for a command line."""

    code: str
    message: str
    hint: str | None
    exit_code: int
    problems: list[Problem]


class Error(TypedDict):
    """The one form of an error, for every status."""

    error: ErrorForm
