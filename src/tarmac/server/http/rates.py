"""How many requests an account or an address may send in a minute. Called by `hosts`, and for logins.

The only module that uses the library `limits`. The counts are in memory: a restart begins them again.
"""

import math
import time
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from tarmac.model.errors import TooManyRequests
from tarmac.server.settings import AddressSettings

if TYPE_CHECKING:
    from limits.strategies import FixedWindowRateLimiter


class RateKind(StrEnum):
    """The limited kinds of requests; a key of `Rates.check` is an account or a network."""

    REQUESTS = "requests"
    LOGIN_ACCOUNT = "logins to one account"
    LOGIN_ADDRESS = "logins from one address"


LOGINS_PER_MINUTE = {RateKind.LOGIN_ACCOUNT: 10, RateKind.LOGIN_ADDRESS: 30}


class Rates:
    """The counts of one server. Thread-safe."""

    def __init__(self, *, requests_per_minute: int = AddressSettings().requests_per_minute) -> None:
        self._amounts = {RateKind.REQUESTS: requests_per_minute, **LOGINS_PER_MINUTE}

    @cached_property
    def _counts(self) -> "FixedWindowRateLimiter":
        from limits.storage import MemoryStorage  # noqa: PLC0415 - servers without an address start faster
        from limits.strategies import FixedWindowRateLimiter  # noqa: PLC0415

        return FixedWindowRateLimiter(MemoryStorage())

    def check(self, kind: RateKind, key: str) -> None:
        """Count a request; raises TooManyRequests if the minute that its first one began has had enough."""
        from limits import RateLimitItemPerMinute  # noqa: PLC0415

        limit = RateLimitItemPerMinute(self._amounts[kind])
        if self._counts.hit(limit, kind, key):
            return
        ends_at = self._counts.get_window_stats(limit, kind, key).reset_time
        wait_s = max(1, math.ceil(ends_at - time.time()))
        raise TooManyRequests(
            f"{key}: {limit.amount} {kind} in a minute are allowed",
            hint=f"try again in {wait_s} s",
            retry_after_s=wait_s,
        )
