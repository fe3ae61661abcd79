"""What holds for every test: Hypothesis bounds no example in time, because a machine may be busy."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from examples import examples

settings.register_profile("tarmac", deadline=None, max_examples=examples(100))
settings.load_profile("tarmac")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collecting makes no garbage, and what it makes stays: the collector need not look at it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
