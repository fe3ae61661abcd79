"""The errors tarmac raises on purpose, as a tree. Every layer raises them; the command line and the server
render them.

    TarmacError
    +-- InvalidInput      the input is wrong; lists all problems                (exit code 2, HTTP 422)
    +-- NotFound          no such run, node, ...; suggests the nearest name     (exit code 2, HTTP 404)
    +-- Refused           understood, but not allowed in this state             (exit code 2, HTTP 409)
    |   +-- NeverFits     no empty cluster here fits the run; has the reasons
    +-- TooLarge          the request is larger than allowed                    (exit code 2, HTTP 413)
    +-- Unauthorized      no token, a wrong one, or another user's              (exit code 1, HTTP 401)
    +-- Forbidden         the actor's roles do not allow it                     (exit code 1, HTTP 403)
    +-- Misdirected       the request names a host that is not this server      (exit code 1, HTTP 421)
    +-- Unavailable       nothing was done: try again later                     (exit code 1, HTTP 503)
    |   +-- StorageFull   the disk of the database is full
    |   +-- TooManyRequests  of one sender; has the seconds to wait            (HTTP 429)
    +-- WaitTimeout       a run had not ended in time; also a TimeoutError      (exit code 124, clients)
    +-- LeaseLost         another server took over the cluster: drop the work   (never reaches a user)

The class decides about retries: `InvalidInput`, `NotFound` and `Refused` will fail again with the same input;
`Unavailable` may succeed later, and guarantees that nothing was partly done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LONGEST_WORD = 100


@dataclass(frozen=True)  # on Python 3.9, with the standard library alone: a copied sidecar imports it
class Problem:
    """One problem in an input: its place, what was found, what is allowed.

    `line` and `column` count from 1; they are None if the input has no text (a command-line flag).
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} ({self.hint})" if self.hint else text


class TarmacError(Exception):
    """The base of all errors."""

    code = "error"
    exit_code = 1
    http_status = 500

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidInput(TarmacError):
    """The input is wrong; `problems` lists everything found in it, in the order of the text."""

    code = "invalid_input"
    exit_code = 2
    http_status = 422

    def __init__(self, problems: Sequence[Problem] | str, *, hint: str | None = None) -> None:
        listed = (Problem(message=problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in listed), hint=hint)
        self.problems = listed


class NotFound(TarmacError):
    """The named thing does not exist."""

    code = "not_found"
    exit_code = 2
    http_status = 404


class Refused(TarmacError):
    """The request is understood but not allowed now."""

    code = "refused"
    exit_code = 2
    http_status = 409


class NeverFits(Refused):
    """A run can never start here; `reasons` has one for each node or group of nodes."""

    code = "never_fits"

    def __init__(self, message: str, *, hint: str | None = None, reasons: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.reasons = tuple(reasons)


class IsExperiment(Refused):
    """A file that searches over its parameters was submitted as one run."""

    code = "is_experiment"


class TooLarge(TarmacError):
    """The request is larger than allowed."""

    code = "too_large"
    exit_code = 2
    http_status = 413


class Unauthorized(TarmacError):
    """The request carries no valid token."""

    code = "unauthorized"
    http_status = 401


class Forbidden(TarmacError):
    """The actor may not do this."""

    code = "forbidden"
    http_status = 403


class Misdirected(TarmacError):
    """The request was sent to a host name that does not belong to this server."""

    code = "misdirected"
    http_status = 421


class Unavailable(TarmacError):
    """Nothing was done; the same request may succeed later."""

    code = "unavailable"
    http_status = 503


class StorageFull(Unavailable):
    """The disk of the database is full; earlier acknowledged changes are safe."""

    code = "storage_full"


class TooManyRequests(Unavailable):
    """An account or address sent more requests than allowed; the server knows when the next is allowed."""

    code = "too_many_requests"
    http_status = 429

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class WaitTimeout(TarmacError, TimeoutError):
    """A run had not ended in time; it continues. `run` is the run as it was then."""

    code = "wait_timeout"
    exit_code = 124  # like the program `timeout`

    def __init__(self, message: str, *, run: Any) -> None:
        super().__init__(message)
        self.run = run


class LeaseLost(TarmacError):
    """The lease of the cluster passed to another server; the present change was not applied."""

    code = "lease_lost"


def nearest(
    word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None, *, cutoff: float = 0.6
) -> str | None:
    """The known word that is nearest, ignoring case; None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 only an error needs it

    names = {name.lower(): name for name in sorted(known)}
    matches = get_close_matches(word.lower()[:_LONGEST_WORD], names, n=1, cutoff=cutoff)
    return (synonyms or {}).get(word.lower()) or (names[matches[0]] if matches else None)


def suggestion(
    word: str, known: Collection[str], otherwise: str, synonyms: Mapping[str, str] | None = None
) -> str:
    """The hint for an unknown word: the nearest known one, or `otherwise`."""
    near = nearest(word, known, synonyms)
    return f"did you mean {near}?" if near else otherwise


def listed(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first of some items, and the number of others: `a, b and 3 more`."""
    shown, more = separator.join(items[:most]), len(items) - most
    if more <= 0:
        return shown
    return f"{shown}{'' if separator == ', ' else separator.rstrip()} and {more:,} more"
