"""Hashes and checks passwords, with Argon2id (RFC 9106). Called by the accounts of `server`.

A hash takes 64 MiB and some 50 ms of a processor: only a few are made at a time, never in the event loop.
"""

from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tarmac.model.errors import InvalidInput
from tarmac.model.people.account import salted
from tarmac.vault.turns import Turns

SHORTEST, LONGEST = 10, 256
"""Characters of a password; a longer text is refused before it is hashed."""

AT_ONCE = 2


class Passwords:
    """The hashing of one server. From any thread."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turns = Turns(AT_ONCE)

    def new(self, password: str) -> str:
        """The salted form of a new password. Raises InvalidInput for one that is too short or too long."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise InvalidInput(f"a password has {SHORTEST} to {LONGEST} characters, this one {len(password)}")
        return salted(password)

    def hashed(self, password: str) -> str:
        """The hash of a new password, in its salted form."""
        with self._turns.take():
            return self._hasher.hash(password)

    def matches(self, password: str, stored: str | None) -> bool:
        """Whether the password, in its salted form, has this hash.

        Takes as long without a hash, as for an unknown user.
        """
        if len(password) > LONGEST:
            return False
        with self._turns.take():
            try:
                return self._hasher.verify(stored or self._nobody, password) and stored is not None
            except (VerificationError, InvalidHashError):
                return False

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash("a password that no user has")
