"""How many examples a property is tried with: few in `make test`, all of them in `make test-engines`."""

from __future__ import annotations

import os

FEW = 25


def examples(full: int) -> int:
    """The number of examples, of which a property has `full` where TARMAC_TEST_EXAMPLES=full."""
    return full if os.environ.get("TARMAC_TEST_EXAMPLES") == "full" else min(full, FEW)
