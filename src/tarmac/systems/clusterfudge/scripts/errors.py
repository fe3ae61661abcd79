"""Exceptions that a launch script may catch: no capacity, an invalid request, no access.

Raised by every module that a script calls. Runs on Python 3.9: see the package.
"""

from __future__ import annotations

import sys
from typing import Any


class RequestError(ValueError):
    """The request is invalid, or tarmac refused it; `hint` may suggest a correction."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


class UnsupportedError(NotImplementedError):
    """A part of Clusterfudge that tarmac does not have."""


class TarmacError(Exception):
    """The server could not be reached, or failed."""


class SchedulingError(Exception):
    """No capacity for the launch, now (it was not to queue) or ever; the log has the reason of each node."""

    def __init__(self, message: str, scheduling_log: str) -> None:
        self.message = message
        self.scheduling_log = scheduling_log
        super().__init__(message)

    def prettyprint(self) -> None:
        """Print the message and the log."""
        rule = "-" * 15
        lines = ["", self.message, "", "Scheduling log:", rule, self.scheduling_log, rule]
        sys.stdout.write("\n".join(lines) + "\n")


class AuthenticationError(Exception):
    """The server does not know the user."""

    def __init__(self, original_exception: Any, details: Any = None, status_code: Any = None) -> None:
        self.original_exception = original_exception
        self.details = details
        self.status_code = status_code
        self.message = self.user_friendly_message()
        super().__init__(self.message)

    def user_friendly_message(self) -> str:
        """The message for the user."""
        text = "\n\nAuthentication failed. Please refresh your credentials with 'fudge login'."
        if self.details:
            text += f"\n\tDetails: {self.details}"
        if self.status_code:
            text += f"\n\tStatus code: {self.status_code}"
        return text


OURS = (RequestError, UnsupportedError, TarmacError, SchedulingError, AuthenticationError)
"""Exceptions that are shown as a sentence, not as a traceback, if a script does not catch them."""
