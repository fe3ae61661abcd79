"""One warm parent for all tests of a module: what they start lives in attempt directories of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attempts import Warm, warm_parent


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_parent() as parent:
        yield parent
