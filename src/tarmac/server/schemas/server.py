"""The server about itself, and its errors. Made in `server.routes.server` and `server.errors`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Version(BaseModel):
    """Which server answers."""

    model_config = ConfigDict(extra="forbid")

    version: str
    pid: int
    home: str
    started_at: float


class Problem(BaseModel):
    """One thing wrong in an input."""

    message: str
    file: str | None
    line: int | None
    column: int | None
    hint: str | None


class CheckReport(BaseModel):
    """Everything wrong with a run file, and what its reader warns of."""

    model_config = ConfigDict(extra="forbid")

    problems: list[Problem]
    warnings: list[str]


class ErrorForm(BaseModel):
    """What went wrong; `exit_code` is what a command line should end with."""

    model_config = ConfigDict(extra="forbid")

    code: str
    message: str
    hint: str | None
    exit_code: int
    problems: list[Problem]


class Error(BaseModel):
    """The one form of an error, whatever the status."""

    model_config = ConfigDict(extra="forbid")

    error: ErrorForm
