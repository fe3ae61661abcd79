"""Hashes and checks passwords, with Argon2id (RFC 9106). Called by the accounts of `server`.

A hash takes 64 MiB and some 50 ms of a processor: only a few are made at a time, never in the event loop.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tarmac.model.errors import InvalidInput, Unavailable

SHORTEST, LONGEST = 10, 256
"""Characters of a password; a longer text is refused before it is hashed."""

AT_ONCE = 2
WAIT_S = 5.0


class Passwords:
    """The hashing of one server. From any thread."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._slots = BoundedSemaphore(AT_ONCE)

    def hashed(self, password: str) -> str:
        """The hash of a new password. Raises InvalidInput for one that is too short or too long."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise InvalidInput(f"a password has {SHORTEST} to {LONGEST} characters, this one {len(password)}")
        with self._turn():
            return self._hasher.hash(password)

    def matches(self, password: str, stored: str | None) -> bool:
        """Whether the password has this hash. Takes as long without a hash, as for an unknown user."""
        if len(password) > LONGEST:
            return False
        with self._turn():
            try:
                return self._hasher.verify(stored or self._nobody, password) and stored is not None
            except (VerificationError, InvalidHashError):
                return False

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash("a password that no user has")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._slots.acquire(timeout=WAIT_S):
            raise Unavailable("too many users log in at the moment", hint="try again")
        try:
            yield
        finally:
            self._slots.release()
