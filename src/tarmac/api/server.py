"""The server about itself, and what is wrong with an input. Made in `server.http.errors`."""

from __future__ import annotations

from typing_extensions import TypedDict


class Version(TypedDict):
    """Which server answers; `now` is its clock."""

    version: str
    pid: int
    home: str
    started_at: float
    now: float


class Health(TypedDict):
    """Whether a server does its work, and why it does not."""

    healthy: bool
    reasons: list[str]


class Problem(TypedDict):
    """One thing wrong in an input."""

    message: str
    file: str | None
    line: int | None
    column: int | None
    hint: str | None


class CheckReport(TypedDict):
    """Everything wrong with a run file, and what its reader warns of."""

    problems: list[Problem]
    warnings: list[str]


class ErrorForm(TypedDict):
    """What went wrong; `exit_code` is what a command line should end with."""

    code: str
    message: str
    hint: str | None
    exit_code: int
    problems: list[Problem]


class Error(TypedDict):
    """The one form of an error, whatever the status."""

    error: ErrorForm
