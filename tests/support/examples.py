"""How much a property is tried with: little in `make test`, all of it in `make test-engines`."""

from __future__ import annotations

import os

FULL = os.environ.get("TARMAC_TEST_EXAMPLES") == "full"

FEW = 12
"""Examples of a property in `make test`, if it sets no other number."""

SHARE_OF_SEEDS = 4
"""`make test` plays one of so many seeds of a simulation."""


def examples(full: int, *, few: int = FEW) -> int:
    """The number of examples, of which a property has `full` where TARMAC_TEST_EXAMPLES=full."""
    return full if FULL else min(full, few)


def seeds(full: int, *, case: int = 0) -> range:
    """The seeds of a case of a test marked `seeded`, `full` of them where TARMAC_TEST_EXAMPLES=full."""
    first = case * full
    return range(first, first + (full if FULL else full // SHARE_OF_SEEDS))
